// What a rank loses beside its own work: waiting inside collectives, a pipeline's bubble, idle time.

import type { IdleGaps, Pipeline, Run } from "../../core/document";
import { time } from "../../core/format";
import { t } from "../../core/language";
import type { Model } from "../../core/model";
import { lengthOf, union } from "./intervals";

export const BUBBLE = "bubble";

/** Stretches of a stage in which none of its blocks runs, within the schedule. */
export function bubbles(stage: Pipeline["stages"][number], start_ns: number, end_ns: number): [number, number][] {
  const found: [number, number][] = [];
  let at = start_ns;
  for (const block of [...stage.blocks].sort((a, b) => a.start_ns - b.start_ns)) {
    if (block.start_ns > at) found.push([at, block.start_ns]);
    at = Math.max(at, block.end_ns);
  }
  if (at < end_ns) found.push([at, end_ns]);
  return found;
}

const made = new WeakMap<Run, Map<number, IdleGaps | null>>();

/** The bubbles of a rank's stage as stretches with a cause; null where it is no stage. */
export function bubblesOf(run: Run, rank: number): IdleGaps | null {
  const known = made.get(run) ?? new Map<number, IdleGaps | null>(), stage = run.pipeline?.stages.find((one) => one.rank === rank);
  made.set(run, known);
  if (!known.has(rank)) {
    const found = run.pipeline && stage ? bubbles(stage, run.pipeline.start_ns, run.pipeline.end_ns) : [], none = found.map(() => 0);
    known.set(rank, found.length ? { rank, start_ns: found.map(([from]) => from), duration_ns: found.map(([from, to]) => to - from), cause: none, what: none, causes: [BUBBLE], names: [""], left_out: 0, left_out_ns: 0 } : null);
  }
  return known.get(rank) ?? null;
}

/** In words, with their sums over all that is drawn: what a rank waits for others, its bubbles, its idle time. */
export function lossesOf({ run }: Model, rank: number): string[] {
  const waits = run.collective_waits, lanes = run.timeline?.lanes ?? [], bubble = bubblesOf(run, rank), gaps = run.idle_gaps?.find((one) => one.rank === rank);
  const sum = (lengths: readonly number[]) => lengths.reduce((total, length) => total + length, 0) * 1e-9;
  // A rank that waits on two links at once waits once.
  const waited = waits ? lengthOf(union(waits.start_ns.flatMap((start, i): [number, number][] => (lanes[waits.lane[i]]?.rank === rank ? [[start, start + waits.wait_ns[i]]] : [])))) * 1e-9 : 0;
  return [
    waited > 0 ? t("waits for others {time}", { time: time(waited) }) : "", bubble ? t("bubble {time}", { time: time(sum(bubble.duration_ns)) }) : "",
    gaps ? t("idle {time}", { time: time(sum(gaps.duration_ns) + gaps.left_out_ns * 1e-9) }) : "",
  ].filter(Boolean);
}
