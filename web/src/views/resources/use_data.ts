// Use over the step: which curves stand, how high, and what a stretch of time means.

import type { UseOverTime, UseSeries } from "../../core/document";
import { DEVICE_KINDS, type Model } from "../../core/model";
import type { Selection } from "../../core/selection";
import { averageBetween, share } from "./units";

/** The top of a curve's axis: its limit; more where the curve goes above it; its highest where none is known. */
export function topOf(series: UseSeries): number {
  const most = series.values.reduce((a, b) => Math.max(a, b), 0);
  if (series.limit === null) return most || 1;
  return most > series.limit * 1.001 ? most * 1.05 : series.limit;
}

/** An area under a curve of steps, as an SVG path in a box. */
export function area(values: number[], top: number, left: number, width: number, base: number, height: number): string {
  const step = width / values.length, y = (v: number) => (base - (Math.min(v, top) / top) * height).toFixed(1);
  let d = `M${left},${base}`;
  values.forEach((v, i) => { d += `L${(left + i * step).toFixed(1)},${y(v)}H${(left + (i + 1) * step).toFixed(1)}`; });
  return `${d}V${base}Z`;
}

/** Fewer bins, each the mean of its own: what a narrow picture can show. */
export function coarser(values: number[], most: number): number[] {
  if (values.length <= most) return values;
  const found: number[] = [];
  for (let i = 0; i < most; i++) {
    const from = (i * values.length) / most, to = ((i + 1) * values.length) / most;
    let sum = 0;
    for (let k = Math.floor(from); k < to; k++) sum += (values[k] as number) * (Math.min(k + 1, to) - Math.max(k, from));
    found.push(sum / (to - from));
  }
  return found;
}

/** Device events of the rank that run between two moments. */
export function eventsBetween(model: Model, rank: number, from: number, to: number): number[] {
  const tl = model.run.timeline;
  if (!tl) return [];
  return model.eventsWhere((i) => (tl.events.kind[i] as number) < DEVICE_KINDS && tl.lanes[tl.events.lane[i] as number]?.rank === rank
    && (model.start[i] as number) < to && (model.end[i] as number) > from);
}

/** When the chosen device work runs: joined stretches on the timeline's clock, inside the step. */
export function stretches(model: Model, use: UseOverTime, selection: Selection | null): [number, number][] {
  const tl = model.run.timeline;
  if (!tl || !selection) return [];
  const least = (use.end_ns - use.start_ns) / 1500, found: [number, number][] = [];
  const rows = selection.events.filter((i) => (tl.events.kind[i] as number) < DEVICE_KINDS && tl.lanes[tl.events.lane[i] as number]?.rank === use.rank)
    .sort((a, b) => (model.start[a] as number) - (model.start[b] as number));
  for (const i of rows) {
    const from = Math.max(use.start_ns, model.start[i] as number), to = Math.min(use.end_ns, model.end[i] as number);
    if (to <= from && !(to === from && model.start[i] === model.end[i])) continue;
    const last = found.at(-1);
    if (last && from - last[1] <= least) last[1] = Math.max(last[1], to);
    else found.push([from, to]);
  }
  return found;
}

/** Means of all curves over a stretch, each over its limit where there is one. */
export const means = (use: UseOverTime, from: number, to: number): { series: UseSeries; mean: number; share: number | null }[] =>
  use.series.map((series) => {
    const mean = averageBetween(use, series, from, to);
    return { series, mean, share: share(series, mean) };
  });
