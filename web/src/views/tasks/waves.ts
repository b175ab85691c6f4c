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
 */
export function filling(grid: number, waves: number, units: number): Filling | null {
  if (!(grid > 0) || !(waves > 0) || !(units > 1)) return null;
  const persistent = grid <= units && waves > 1 + 1e-9;
  const slots = persistent ? units : Math.max(1, Math.round(grid / waves));
  const pieces = persistent ? Math.max(grid, Math.round(waves * units)) : grid;
  const count = Math.max(1, Math.ceil(pieces / slots - 1e-9));
  const last = pieces - (count - 1) * slots;
  return { pieces, units, resident: Math.max(1, Math.round(slots / units)), slots, waves: count, last, empty: 1 - pieces / (count * slots), persistent };
}

/** The waves that are drawn each in a row; of many, equal ones in the middle stand in one. */
export function waveRows(found: Filling, most = 12): WaveRow[] {
  const whole = found.waves - 1;
  const row = (from: number, to: number, pieces: number): WaveRow => ({ from, to, pieces });
  const last = row(found.waves, found.waves, found.last);
  if (found.waves <= most) return [...Array.from({ length: whole }, (_, i) => row(i + 1, i + 1, found.slots)), last];
  const before = most - 4;
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
