import { describe, expect, it } from "vitest";
import { dealt, filling, occupancyLimit, tilesOf, waveRows } from "../src/views/tasks/waves";

describe("filling", () => {
  it("splits blocks into waves: 300 blocks, 132 units, one each", () => {
    const found = filling(300, 300 / 132, 132);
    expect(found).toMatchObject({ pieces: 300, slots: 132, resident: 1, waves: 3, last: 36, persistent: false });
    expect(found?.empty).toBeCloseTo(1 - 300 / 396);
  });

  it("has no tail where the last wave is full", () => {
    expect(filling(1056, 2, 132)).toMatchObject({ slots: 528, resident: 4, waves: 2, last: 528, empty: 0 });
  });

  it("is one part-filled wave where the grid is small", () => {
    expect(filling(32, 32 / 528, 132)).toMatchObject({ waves: 1, last: 32, slots: 528 });
  });

  it("knows persistent blocks: one a unit, several pieces each", () => {
    expect(filling(132, 768 / 132, 132)).toMatchObject({ persistent: true, pieces: 768, slots: 132, waves: 6, last: 108 });
  });

  it("takes known tiles of a grid of one block a unit", () => {
    expect(filling(132, 1, 132, 1664)).toMatchObject({ persistent: true, pieces: 1664, slots: 132, waves: 13, last: 80 });
    expect(filling(264, 1, 132, 1664)).toMatchObject({ persistent: false, pieces: 264 });
  });

  it("counts the tiles of a product", () => {
    expect(tilesOf(2 * 8192 ** 3, [[8192, 8192], [8192, 8192]], [320, 128, 64])).toEqual([1664, 1664]);
    expect(tilesOf(2 * 4096 * 2048 * 1024, [[1024], [4096, 1024], [1024, 2048]], [256, 128])).toEqual([256, 256]);
    expect(tilesOf(2 * 100 * 1000 * 64, [[4, 25, 64], [1000, 64]], [128, 256])).toEqual([4, 8]);
    expect(tilesOf(0, [[8, 8], [8, 8]], [8, 8])).toBeNull();
    expect(tilesOf(100, [[8]], [8, 8])).toBeNull();
  });

  it("says nothing where nothing is known", () => {
    expect(filling(10, 0, 132)).toBeNull();
    expect(filling(10, 1, 0)).toBeNull();
  });
});

describe("rows of waves", () => {
  it("holds every piece once, whatever is folded", () => {
    for (const grid of [1, 131, 132, 133, 1584, 1585, 100608]) {
      const found = filling(grid, grid / 132, 132);
      if (!found) throw new Error("unknown");
      const rows = waveRows(found);
      expect(rows.length).toBeLessThanOrEqual(16);
      expect(rows.reduce((sum, r) => sum + r.pieces * (r.to - r.from + 1), 0)).toBe(grid);
      rows.slice(1).forEach((r, i) => expect(r.from).toBe((rows[i]?.to as number) + 1));
      expect(rows.at(-1)?.to).toBe(found.waves);
    }
  });

  it("deals pieces out one to each unit in turn", () => {
    expect(dealt(7, 4, 2)).toEqual([2, 2, 2, 1]);
    expect(dealt(3, 4, 1)).toEqual([1, 1, 1, 0]);
    expect(dealt(528, 132, 4).every((n) => n === 4)).toBe(true);
  });
});

describe("what limits occupancy", () => {
  const h200 = { mostThreads: 2048, mostBlocks: 32, warp: 32, blocks: 100000, slots: 528 };
  it("is the first limit that leaves no room for one more block", () => {
    expect(occupancyLimit({ ...h200, threads: 128, resident: 16 })).toBe("threads");
    expect(occupancyLimit({ ...h200, threads: 1000, resident: 2 })).toBe("threads"); // 1,024 a block
    expect(occupancyLimit({ ...h200, threads: 32, resident: 32 })).toBe("blocks");
    expect(occupancyLimit({ ...h200, threads: 128, resident: 4 })).toBe("space");
    expect(occupancyLimit({ ...h200, threads: 384, resident: 1, blocks: 20, slots: 132 })).toBe("grid");
    expect(occupancyLimit({ ...h200, threads: 32, resident: 32, mostBlocks: null })).toBe("space");
  });
});
