import { describe, expect, it } from "vitest";
import type { Mesh, Pipeline } from "../src/core/document";
import { hosts, onCircle, pairs, shortRanks } from "../src/views/tasks/mesh_data";
import { bubbles } from "../src/views/time/losses";

const every = (n: number) => `every ${n}`;
const rank = (n: number, host = "") => ({ rank: n, host, device: null, recorded: true, compute_s: null, communication_s: 0, transfer_s: null, waiting_s: null, caused_s: null, sent_bytes: null });

describe("the mesh of ranks", () => {
  it("names ranks in short", () => {
    expect(shortRanks([3], every)).toBe("3");
    expect(shortRanks([0, 1], every)).toBe("0, 1");
    expect(shortRanks([0, 1, 2, 3], every)).toBe("0–3");
    expect(shortRanks([1, 9, 17, 25], every)).toBe("1, 9, … 25 (every 8)");
    expect(shortRanks([0, 1, 5], every)).toBe("0, 1, 5");
  });

  it("adds the flows of all groups; the one with most of it names the pair", () => {
    const mesh: Mesh = {
      ranks: [rank(0), rank(1)], groups: [], steps: 1, unplaced: 0,
      flows: [{ sender: 0, receiver: 1, group: 0, sent_bytes: 10 }, { sender: 0, receiver: 1, group: 1, sent_bytes: 30 }, { sender: 1, receiver: 0, group: 0, sent_bytes: 5 }],
    };
    expect(pairs(mesh)).toEqual([{ sender: 0, receiver: 1, bytes: 40, group: 1 }, { sender: 1, receiver: 0, bytes: 5, group: 0 }]);
    expect(pairs({ ...mesh, flows: [] })).toEqual([]);
  });

  it("puts ranks into their hosts", () => {
    const found = hosts({ ranks: [rank(0, "a"), rank(1, "b"), rank(2, "a")], groups: [], flows: [], steps: 1, unplaced: 0 });
    expect(found.map((box) => [box.host, box.ranks.map((r) => r.rank)])).toEqual([["a", [0, 2]], ["b", [1]]]);
  });

  it("places them on a circle, the first at the top", () => {
    const [top, right] = onCircle(4, 100, 50) as [[number, number], [number, number]];
    expect(top[0]).toBeCloseTo(100);
    expect(top[1]).toBeCloseTo(50);
    expect(right[0]).toBeCloseTo(150);
  });
});

describe("bubbles", () => {
  const block = (start_ns: number, end_ns: number): Pipeline["stages"][number]["blocks"][number] => ({ phase: "forward", number: 0, start_ns, end_ns });
  it("fill what blocks leave of the schedule", () => {
    const stage = { rank: 0, busy_s: 0, bubble_s: 0, blocks: [block(30, 50), block(10, 20), block(45, 60)] };
    expect(bubbles(stage, 0, 100)).toEqual([[0, 10], [20, 30], [60, 100]]);
    expect(bubbles({ ...stage, blocks: [block(0, 100)] }, 0, 100)).toEqual([]);
    expect(bubbles({ ...stage, blocks: [] }, 5, 9)).toEqual([[5, 9]]);
  });
});
