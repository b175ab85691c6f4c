// Thread blocks landing on multiprocessors, wave by wave: what a kernel's grid and waves say.

/** How a grid fills a device. */
export interface Filling {
  /** Pieces of work: thread blocks, or what persistent blocks work off one after the other. */
  pieces: number;
  /** Multiprocessors, and pieces that each takes at once. */
  units: number;
  resident: number;
  /** Pieces that run at once. */
  slots: number;
  waves: number;
  /** Pieces in the last wave. */
  last: number;
  /** Share of the slots of all waves that stay empty. */
  empty: number;
  /** The grid holds one block a multiprocessor, and each works off several pieces. */
  persistent: boolean;
}

/**
 * Tiles of a matrix product, from what it multiplies; null where it cannot be told. Libraries may
 * lay the tile along either side, so there are two counts; they are equal for square results.
 *
 * @param flops useful FLOPs: 2 m n k.
 * @param inputs shapes of the operator's inputs; the first with two dimensions or more is the left
 *   factor, its last dimension is k.
 * @param tile rows and columns of a tile.
 */
export function tilesOf(flops: number, inputs: readonly (readonly number[])[], tile: readonly number[]): [number, number] | null {
  const [rows = 0, columns = 0] = tile;
  const factors = inputs.filter((shape) => shape.length >= 2);
  const left = factors.at(-2);
  if (!left || !(rows > 0) || !(columns > 0) || !(flops > 0)) return null;
  const k = left.at(-1) as number, m = left.slice(0, -1).reduce((a, b) => a * b, 1), n = flops / (2 * m * k);
  if (!Number.isInteger(n)) return null;
  const count = (high: number, wide: number) => Math.ceil(m / high) * Math.ceil(n / wide);
  const both: [number, number] = [count(rows, columns), count(columns, rows)];
  return [Math.min(...both), Math.max(...both)];
}

/** What keeps more blocks of a kernel from being resident on a multiprocessor. */
export type Limit = "grid" | "threads" | "blocks" | "space";

/**
 * Which limit binds: the grid where not all places are taken, the threads where one more block has
 * no room for them, the block slots where all are used, else registers or shared memory.
 */
export function occupancyLimit(of: { threads: number; resident: number; blocks: number; slots: number; mostThreads: number; mostBlocks: number | null; warp: number }): Limit {
  const whole = Math.ceil(of.threads / of.warp) * of.warp; // a block takes whole warps
  if (of.blocks < of.slots) return "grid";
  if ((of.resident + 1) * whole > of.mostThreads) return "threads";
  return of.mostBlocks !== null && of.resident >= of.mostBlocks ? "blocks" : "space";
}

/** A row of the picture: a wave, or several equal ones in one. */
export interface WaveRow {
  /** First and last wave of the row, from 1. */
  from: number;
  to: number;
  /** Pieces in each of its waves. */
  pieces: number;
}

/**
 * How a grid of blocks fills the device; null where waves or multiprocessors are not known.
 *
 * @param grid thread blocks launched.
 * @param waves grid over the blocks that fit at once, fractional; 0 where unknown.
 * @param units multiprocessors of the device; 0 where unknown.
 * @param tiles pieces of work where they are known to be more than a grid of one block a unit.
 */
export function filling(grid: number, waves: number, units: number, tiles = 0): Filling | null {
  if (!(grid > 0) || !(waves > 0) || !(units > 1)) return null;
  const more = tiles > grid && grid <= units && waves <= 1 + 1e-9;
  const persistent = (grid <= units && waves > 1 + 1e-9) || more;
  const slots = more ? grid : persistent ? units : Math.max(1, Math.round(grid / waves));
  const pieces = more ? tiles : persistent ? Math.max(grid, Math.round(waves * units)) : grid;
  const count = Math.max(1, Math.ceil(pieces / slots - 1e-9));
  const last = pieces - (count - 1) * slots;
  return { pieces, units, resident: Math.max(1, Math.round(slots / units)), slots, waves: count, last, empty: 1 - pieces / (count * slots), persistent };
}

/** The waves that are drawn each in a row; of many, equal ones in the middle stand in one. */
export function waveRows(found: Filling, most = 16): WaveRow[] {
  const whole = found.waves - 1;
  const row = (from: number, to: number, pieces: number): WaveRow => ({ from, to, pieces });
  const last = row(found.waves, found.waves, found.last);
  if (found.waves <= most) return [...Array.from({ length: whole }, (_, i) => row(i + 1, i + 1, found.slots)), last];
  const before = Math.min(6, most - 4);
  return [
    ...Array.from({ length: before }, (_, i) => row(i + 1, i + 1, found.slots)),
    row(before + 1, found.waves - 3, found.slots),
    ...Array.from({ length: 2 }, (_, i) => row(found.waves - 2 + i, found.waves - 2 + i, found.slots)),
    last,
  ];
}

/** Pieces on each multiprocessor in a wave: dealt out one to each in turn, then the next round. */
export function dealt(pieces: number, units: number, resident: number): number[] {
  const each = Math.floor(pieces / units), more = pieces - each * units;
  return Array.from({ length: units }, (_, unit) => Math.min(resident, each + (unit < more ? 1 : 0)));
}
