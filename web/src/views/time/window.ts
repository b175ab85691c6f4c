// Which stretch of time a run is about: the window that its analysis looked at, and its steps.

import type { Run, Timeline } from "../../core/document";
import { DEVICE_KINDS } from "../../core/model";

/** A stretch of time that holds a number of steps; nanoseconds on the timeline's clock. */
export interface Window { start: number; end: number; steps: number }

/** The ranks that a timeline's lanes are of, ascending. */
export const laneRanks = (tl: Timeline): number[] => [...new Set(tl.lanes.map((lane) => lane.rank))].sort((a, b) => a - b);

const worked = new WeakMap<Timeline, number[]>();

/** The ranks that have device work, ascending. */
export function deviceRanks(tl: Timeline): number[] {
  const known = worked.get(tl), lanes = new Set<number>();
  if (known) return known;
  const { kind, lane } = tl.events;
  for (let i = 0; i < kind.length; i++) if (kind[i] < DEVICE_KINDS) lanes.add(lane[i]);
  const found = [...new Set([...lanes].map((index) => tl.lanes[index].rank))].sort((a, b) => a - b);
  worked.set(tl, found);
  return found;
}

/** The rank that the breakdowns are of: the first with device work, else the first. */
export const mainRank = (tl: Timeline): number => deviceRanks(tl)[0] ?? laneRanks(tl)[0] ?? 0;

/** The window that the analysis looked at (gpuscope.analysis.window); null for an empty timeline. */
export function windowOf(run: Run): Window | null {
  const tl = run.timeline;
  if (!tl || !tl.events.start_ns.length) return null;
  const path = run.analysis.critical_path;
  if (path && path.end_ns > path.start_ns) return { start: path.start_ns, end: path.end_ns, steps: Math.max(1, path.steps) };
  const rank = mainRank(tl), marks = marksOf(tl, rank);
  if (marks.length) return { start: marks[0].start_ns, end: Math.max(...marks.map((step) => step.end_ns)), steps: marks.length };
  const { start_ns, duration_ns, kind, lane } = tl.events;
  const onDevice = kind.some((k) => k < DEVICE_KINDS);
  let start = Infinity, end = -Infinity;
  for (let i = 0; i < start_ns.length; i++) {
    if (tl.lanes[lane[i]].rank !== rank || (onDevice && kind[i] >= DEVICE_KINDS)) continue;
    start = Math.min(start, start_ns[i]);
    end = Math.max(end, start_ns[i] + duration_ns[i]);
  }
  return end > start ? { start, end, steps: 1 } : null;
}

/** The step of the window whose length is nearest to the median: its begin and end. */
export function typicalStep(run: Run): [number, number] | null {
  const window = windowOf(run);
  if (!window || !run.timeline) return null;
  const marks = marksOf(run.timeline, mainRank(run.timeline));
  if (window.steps === 1 || marks.length < 2) return [window.start, window.start + (window.end - window.start) / window.steps];
  const lengths = marks.map((step) => step.end_ns - step.start_ns).sort((a, b) => a - b);
  const median = lengths[lengths.length >> 1];
  const nearest = marks.reduce((best, step) => (away(step, median) < away(best, median) ? step : best));
  // Marks are the host's; where the device runs behind them, the window begins later.
  const shift = Math.max(0, window.start - marks[0].start_ns);
  return [nearest.start_ns + shift, nearest.end_ns + shift];
}

const away = (step: { start_ns: number; end_ns: number }, length: number): number => Math.abs(step.end_ns - step.start_ns - length);

/** The marked steps of a rank, in time order. */
export const marksOf = (tl: Timeline, rank: number): Timeline["steps"] =>
  tl.steps.filter((step) => step.rank === rank && step.end_ns > step.start_ns).sort((a, b) => a.start_ns - b.start_ns);
