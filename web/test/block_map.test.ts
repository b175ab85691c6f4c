// Memory block by block, by hand: two segments of 8 and 4 bytes, one block freed, one hole.

import { describe, expect, it } from "vitest";
import type { MemoryBlockColumns } from "../src/core/document";
import { blockAt, heldAt, placed } from "../src/views/resources/block_map_data";

const columns: MemoryBlockColumns = {
  begin_ns: 0, end_ns: 100, segments: [[0, 8], [100, 4]], address: [0, 3, 6, 100], nbytes: [3, 2, 2, 4],
  born_ns: [-1, 10, 10, 50], died_ns: [-1, 40, -1, 80], op: [-1, 0, 0, 1], category: [0, 0, 0, 0], owner: [-1, -1, -1, -1], label: [-1, -1, -1, -1], stack: [-1, -1, -1, -1], words: ["temporary"], stacks: [], left_out: 0, left_out_bytes: 0,
};

describe("memory block by block", () => {
  const p = placed(columns);
  it("puts segments close together", () => {
    expect(p.total).toBe(12);
    expect([...p.place]).toEqual([0, 3, 6, 8]);
  });
  it("tells what is held, what is free beside it and what is free alone", () => {
    expect(heldAt(p, 20)).toEqual({ bytes: 7, blocks: 3, holes: 1, largest: 1, cached: 4, segments: 1 });
    expect(heldAt(p, 60)).toEqual({ bytes: 9, blocks: 3, holes: 3, largest: 3, cached: 0, segments: 2 });
    expect(heldAt(p, 100).bytes).toBe(5);
    for (const at of [0, 9, 10, 39, 40, 79, 80, 100]) {
      const held = heldAt(p, at);
      expect(held.bytes + held.holes + held.cached).toBe(p.total);
    }
  });
  it("finds the block at a place only while it is there", () => {
    expect(blockAt(p, 4, 20)).toBe(1);
    expect(blockAt(p, 4, 60)).toBe(-1);
    expect(blockAt(p, 9, 60)).toBe(3);
  });
});
