// Multiprocessors by time: what share of each one's places for thread blocks is taken, and by which kernels.

import type { Model } from "../../core/model";
import { fillingOf } from "../../live/filling";
import { unitsOf } from "../tasks/groups";
import { type Filling, dealt } from "../tasks/waves";
import { familyOf } from "../time/belongs";
import { mainRank } from "../time/window";

/** A stretch of time cut into columns; `taken[column * units + unit]` is the share of places, from 0 to 1. */
export interface SmGrid {
  from: number;
  to: number;
  columns: number;
  units: number;
  taken: Float32Array;
  /** Share of each column's time in which kernels' blocks are on a multiprocessor at all, likewise. */
  working: Float32Array;
  /** Share of each column in which kernels run whose blocks are not known. */
  unknown: Float32Array;
  /** Families of the kernels that run in each column, with the share of it that each has. */
  families: Map<string, Float32Array>;
}

/** Columns of a kernel from which its waves are told apart. */
const APART = 3;

/** Whether a run's kernels say how they fill the device. */
export const hasGrid = (model: Model): boolean => unitsOf(model.run) > 1 && model.run.analysis.tasks.some((task) => task.grid > 0 && task.waves > 0);

/** The grid of the main rank; kernels of equal waves, dealt to one multiprocessor after the other. */
export function smGrid(model: Model, from: number, to: number, columns: number): SmGrid {
  const tl = model.run.timeline, units = unitsOf(model.run), width = (to - from) / columns;
  const grid: SmGrid = { from, to, columns, units, taken: new Float32Array(columns * units), working: new Float32Array(columns * units), unknown: new Float32Array(columns), families: new Map() };
  if (!tl) return grid;
  const kernel = tl.kinds.indexOf("kernel"), rank = mainRank(tl), short = new Map<Filling, Float32Array>();
  for (let i = 0; i < model.count; i++) {
    const start = Math.max(from, model.start[i] as number), end = Math.min(to, model.end[i] as number);
    if (tl.events.kind[i] !== kernel || end <= start || tl.lanes[tl.events.lane[i] as number]?.rank !== rank) continue;
    const found = fillingOf(model, i), family = familyOf(tl, i);
    const own = grid.families.get(family) ?? new Float32Array(columns);
    grid.families.set(family, own);
    spread(grid, start, end, (column, share) => { own[column] = (own[column] as number) + share; });
    if (!found) spread(grid, start, end, (column, share) => { grid.unknown[column] = (grid.unknown[column] as number) + share; });
    else if (end - start > APART * width) addWaves(grid, found, model.start[i] as number, model.end[i] as number);
    else {
      const weights = short.get(found) ?? new Float32Array(columns);
      short.set(found, weights);
      spread(grid, start, end, (column, share) => { weights[column] = (weights[column] as number) + share; });
    }
  }
  for (const [found, weights] of short) weights.forEach((weight, column) => { if (weight > 0) add(grid, column, meanOf(found), weight); });
  for (const shares of [grid.taken, grid.working]) for (let k = 0; k < shares.length; k++) shares[k] = Math.min(1, shares[k] as number);
  return grid;
}

/** The columns that a stretch of time touches, each with the share of it that is covered. */
function spread(grid: SmGrid, start: number, end: number, act: (column: number, share: number) => void): void {
  const width = (grid.to - grid.from) / grid.columns, a = Math.max(grid.from, start), b = Math.min(grid.to, end);
  if (b <= a) return;
  const last = Math.min(grid.columns - 1, Math.floor((b - grid.from) / width));
  for (let column = Math.floor((a - grid.from) / width); column <= last; column++) {
    const left = grid.from + column * width, covered = Math.min(b, left + width) - Math.max(a, left);
    if (covered > 0) act(column, covered / width);
  }
}

/** Of each multiprocessor: the share of its places, and of the time that it works. */
interface Wave { places: readonly number[]; works: readonly number[] }

function add(grid: SmGrid, column: number, on: Wave, weight: number): void {
  const at = column * grid.units;
  for (let unit = 0; unit < grid.units; unit++) {
    grid.taken[at + unit] = (grid.taken[at + unit] as number) + (on.places[unit] as number) * weight;
    grid.working[at + unit] = (grid.working[at + unit] as number) + (on.works[unit] as number) * weight;
  }
}

/** A wave of so many pieces. */
function waveOf(found: Filling, pieces: number): Wave {
  const on = dealt(pieces, found.units, found.resident);
  return { places: on.map((n) => n / found.resident), works: on.map((n) => (n > 0 ? 1 : 0)) };
}

const means = new WeakMap<Filling, Wave>();

/** The mean over all waves of a kernel. */
function meanOf(found: Filling): Wave {
  const known = means.get(found);
  if (known) return known;
  const whole = waveOf(found, found.slots), last = waveOf(found, found.last);
  const mean = (of: keyof Wave) => whole[of].map((share, unit) => (share * (found.waves - 1) + (last[of][unit] as number)) / found.waves);
  const made = { places: mean("places"), works: mean("works") };
  means.set(found, made);
  return made;
}

/** A kernel's full waves, and its last one after them, in the columns where they lie. */
function addWaves(grid: SmGrid, found: Filling, start: number, end: number): void {
  const turn = end - (end - start) / found.waves, whole = waveOf(found, found.slots), last = waveOf(found, found.last);
  spread(grid, start, turn, (column, share) => add(grid, column, whole, share));
  spread(grid, turn, end, (column, share) => add(grid, column, last, share));
}

/** Of a column: the mean share of places taken, and of multiprocessors that work. */
export function columnMeans(grid: SmGrid, column: number): { taken: number; working: number } {
  const mean = (shares: Float32Array) => shares.subarray(column * grid.units, (column + 1) * grid.units).reduce((a, b) => a + b, 0) / grid.units;
  return { taken: mean(grid.taken), working: mean(grid.working) };
}
