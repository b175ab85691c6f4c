// What a moment holds: the work that runs, the host's calls, why the device waits, what each unit does.

import type { IdleGaps, KernelUse, Run, Timeline, UseSeries } from "../core/document";
import { DEVICE_KINDS, type Model } from "../core/model";
import { type Row, firstAfter } from "../views/time/rows";
import { lanesOf } from "../views/time/tracks";
import { mainRank } from "../views/time/window";

/** What one rank does at a moment. */
export interface Instant {
  at: number;
  rank: number;
  /** Rows of the device events that run, longest first. */
  running: number[];
  /** Of them the kernel that computes longest; -1 for none. */
  kernel: number;
  /** The innermost call of each host thread. */
  host: number[];
  /** Why the device waits: its cause and what is at fault; null while it works or where it is not known. */
  idle: { cause: string; what: string; start: number; end: number } | null;
}

/** The spans of a lane that hold a moment, from the outermost to the innermost. */
function holding(rows: readonly Row[], at: number): number[] {
  const found: number[] = [];
  for (const row of rows) {
    const k = firstAfter(row, at), i = row.index[k];
    if (i !== undefined && (row.spans.start[i] as number) <= at) found.push(i);
  }
  return found;
}

/** What a rank (by default the main one) does at a moment; null without a timeline. */
export function instantAt(model: Model, at: number, of?: number): Instant | null {
  const tl = model.run.timeline;
  if (!tl) return null;
  const rank = of ?? mainRankOf(model), running: number[] = [], host: number[] = [];
  lanesOf({ model, offset: 0 }, false).forEach((rows, lane) => {
    const own = tl.lanes[lane];
    if (own?.rank !== rank) return;
    const found = holding(rows, at);
    if (own.kind === "host") host.push(...found.slice(-1));
    else running.push(...found.filter((i) => (tl.events.kind[i] as number) < DEVICE_KINDS));
  });
  running.sort((a, b) => (tl.events.duration_ns[b] as number) - (tl.events.duration_ns[a] as number));
  const kernel = running.find((i) => tl.kinds[tl.events.kind[i] as number] === "kernel") ?? -1;
  return { at, rank, running, kernel, host, idle: running.length ? null : idleAt(model.run.idle_gaps?.find((gaps) => gaps.rank === rank), at) };
}

const ranks = new WeakMap<Model, number>();

function mainRankOf(model: Model): number {
  let rank = ranks.get(model);
  if (rank === undefined) ranks.set(model, (rank = mainRank(model.run.timeline as Timeline)));
  return rank;
}

function idleAt(gaps: IdleGaps | undefined, at: number): Instant["idle"] {
  if (!gaps) return null;
  const k = lastAtOrBefore(gaps.start_ns, at), start = gaps.start_ns[k] ?? 0, end = start + (gaps.duration_ns[k] ?? 0);
  if (k < 0 || at >= end) return null;
  return { cause: gaps.causes[gaps.cause[k] as number] ?? "", what: gaps.names[gaps.what[k] as number] ?? "", start, end };
}

/** Place of the last of ascending numbers that is not above `value`; -1 for none. */
export function lastAtOrBefore(ascending: ArrayLike<number>, value: number): number {
  let low = 0, high = ascending.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ascending[middle] as number) <= value) low = middle + 1; else high = middle;
  }
  return low - 1;
}

/** What one launch asks of the units, and how long it runs; null where its work is not known. */
function useOf(run: Run, event: number): { use: KernelUse; long_s: number } | null {
  const tl = run.timeline as Timeline, kernel = tl.kernels[tl.events.kernel[event] as number];
  const use = kernel && run.use_by_group?.[kernel.group], long_s = (tl.events.duration_ns[event] as number) * 1e-9;
  return use && long_s > 0 ? { use, long_s } : null;
}

const PER_KERNEL: Partial<Record<UseSeries["key"], (use: KernelUse, long_s: number) => number | null>> = {
  tensor: (use, long_s) => use.tensor_s / long_s, vector: (use, long_s) => use.vector_s / long_s, sm: (use) => use.sm_share,
  memory: (use, long_s) => use.memory_bytes / long_s, l2: (use, long_s) => (use.l2_bytes ?? 0) / long_s,
};

/**
 * What a unit does at a moment, in its curve's unit: of the kernels that run, each as its work over
 * its time, together no more than the unit can do; of links, copies and power the curve, which has
 * the mean of the short stretch around. Null where it is not known.
 */
export function readingAt(run: Run, series: UseSeries, instant: Instant): number | null {
  const { use } = run, per = PER_KERNEL[series.key];
  if (!use) return null;
  // The curves are of one step, which may be one of many.
  if (!per) return instant.at < use.start_ns || instant.at > use.end_ns ? null : series.values[Math.min(use.bins - 1, Math.floor(((instant.at - use.start_ns) / (use.end_ns - use.start_ns)) * use.bins))] ?? null;
  const tl = run.timeline as Timeline;
  let sum = 0;
  for (const event of instant.running) {
    if (tl.kinds[tl.events.kind[event] as number] !== "kernel") continue;
    const known = useOf(run, event), part = known && per(known.use, known.long_s);
    if (part === null) return null;
    sum += part;
  }
  return series.limit === null ? sum : Math.min(sum, series.limit);
}

/** Memory by what it holds at a moment; null where no curve is known. */
export function memoryAt(run: Run, at: number): { name: string; bytes: number }[] | null {
  const curve = run.memory_curve;
  if (curve?.time_ns.length) {
    const k = Math.max(0, lastAtOrBefore(curve.time_ns, at));
    return curve.categories.map((name, i) => ({ name, bytes: curve.allocated_bytes[i]?.[k] ?? 0 }));
  }
  const counter = run.timeline?.counters.find((c) => c.name === "allocated");
  const value = counter?.value[Math.max(0, lastAtOrBefore(counter.time_ns, at))];
  return value === null || value === undefined ? null : [{ name: "allocated", bytes: value }];
}

const begins = new WeakMap<Model, Float64Array>();

/** Begins of the main rank's device work, ascending. */
function workBegins(model: Model): Float64Array {
  let found = begins.get(model);
  const tl = model.run.timeline;
  if (!found) {
    const rank = mainRankOf(model);
    found = Float64Array.from(tl ? model.eventsWhere((i) => (tl.events.kind[i] as number) < DEVICE_KINDS && tl.lanes[tl.events.lane[i] as number]?.rank === rank).map((i) => model.start[i] as number) : []).sort();
    begins.set(model, found);
  }
  return found;
}

/** Where the next (1) or previous (-1) device work begins; null for none. */
export function nextWork(model: Model, at: number, by: 1 | -1): number | null {
  const all = workBegins(model), k = lastAtOrBefore(all, at);
  if (by > 0) return all[k + 1] ?? null;
  // From inside its work to its begin, from there to the one before.
  const before = all[k] === at ? lastAtOrBefore(all, at - 1) : k;
  return all[before] ?? null;
}
