// What the roofline draws: points at a level of the machine, roofs that occur, the step as a whole.

import type { RooflinePoint, Run } from "../../core/document";

export type Level = "memory" | "l2";

export interface Point extends RooflinePoint { dtype: string; x: number }

export interface Slope { key: "l2" | "memory" | "link" | "host"; bandwidth: number; name: string; origin: string }

/** The step as a whole at one level: all its FLOPs over the bytes that crossed there. */
export interface Whole { key: Slope["key"]; intensity: number; flops_per_s: number; bytes: number; reach: number }

const MOST_BUBBLES = 400;
/** Of the step: shorter kernels would only stretch the axes. */
const LEAST_SHARE = 1e-3;

/** A kernel group's dtype (analysis.grouping.group_key: name|dtype|FLOPs|bytes|grid). */
export const dtypeOf = (group: string): string => group.split("|").at(-4) ?? "";

const SHORT: Record<string, string> = { bf16: "bfloat16", fp16: "float16", fp32: "float32", fp64: "float64", tf32: "tf32", fp8: "float8_e4m3fn", int8: "int8" };

/** A point's dtype: by its group, in older files by the last word of its label. */
const pointDtype = (point: RooflinePoint): string => (point.group ? dtypeOf(point.group) : (SHORT[point.label.split(" ").at(-1) ?? ""] ?? ""));

/** FLOPs of one launch of a group. */
const flopsOf = (group: string): number => Number(group.split("|").at(-3));

/** The points worth a bubble at a level, longest first; all of them where none is long. */
export function pointsAt(run: Run, level: Level): Point[] {
  const points = run.analysis.roofline?.points ?? [];
  const sound = points.filter((p) => p.flops_per_s > 0 && p.intensity_flops_per_byte > 0);
  const long = sound.filter((p) => p.time_s >= LEAST_SHARE * run.analysis.step_s);
  const found: Point[] = [];
  for (const point of (long.length ? long : sound).slice(0, MOST_BUBBLES)) {
    const drawn = run.use?.l2_bytes[point.group];
    const x = level === "memory" ? point.intensity_flops_per_byte : drawn ? flopsOf(point.group) / drawn : NaN;
    if (x > 0) found.push({ ...point, dtype: pointDtype(point), x });
  }
  return found;
}

/** The bandwidths of the machine's levels, widest first. */
export function slopesOf(run: Run): Slope[] {
  const device = run.device, found: Slope[] = [];
  const add = (key: Slope["key"], bandwidth: number | null | undefined, name: string, origin = "") => {
    if (bandwidth) found.push({ key, bandwidth, name, origin });
  };
  add("l2", device?.l2_bytes_per_s, "L2", device?.origins.l2_bytes_per_s);
  add("memory", run.analysis.roofline?.memory_bandwidth_bytes_per_s, device?.memory_type ?? "", device?.origins.memory_bandwidth_bytes_per_s ?? "");
  if (run.use?.series.some((s) => s.key === "link") || run.ranks.length > 1) add("link", device?.scale_up?.bandwidth_bytes_per_s, device?.scale_up?.name ?? "", device?.scale_up?.origin);
  add("host", device?.host_link?.bandwidth_bytes_per_s, device?.host_link?.name ?? "", device?.host_link?.origin);
  return found.sort((a, b) => b.bandwidth - a.bandwidth);
}

/** Roofs of the dtypes that occur among the points, highest first, equal ones joined. */
export function roofsOf(run: Run, points: Point[]): { flops_per_s: number; dtypes: string[] }[] {
  const peaks = run.analysis.roofline?.peak_flops_per_s ?? {};
  const occurring = [...new Set(points.map((p) => p.dtype))].filter((dtype) => peaks[dtype]);
  const shown = occurring.length ? occurring : Object.keys(peaks);
  const by = new Map<number, string[]>();
  for (const dtype of shown) by.set(peaks[dtype] as number, [...(by.get(peaks[dtype] as number) ?? []), dtype]);
  return [...by].map(([flops_per_s, dtypes]) => ({ flops_per_s, dtypes })).sort((a, b) => b.flops_per_s - a.flops_per_s);
}

/** The step as a whole, at each level whose bytes are known. */
export function wholeStep(run: Run): Whole[] {
  const use = run.use;
  if (!use) return [];
  const of = (key: string) => use.series.find((s) => s.key === key)?.total ?? 0;
  const done = use.matrix_flops ?? 0, seconds = (use.end_ns - use.start_ns) * 1e-9;
  if (!(done > 0) || !(seconds > 0)) return [];
  const bytes: Record<Slope["key"], number> = { l2: of("l2"), memory: of("memory"), link: of("link"), host: of("h2d") + of("d2h") };
  return slopesOf(run).filter((s) => bytes[s.key] > 0).map((s) => ({
    key: s.key, bytes: bytes[s.key], intensity: done / bytes[s.key], flops_per_s: done / seconds, reach: bytes[s.key] / seconds / s.bandwidth,
  }));
}
