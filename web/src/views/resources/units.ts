// The units of a device as the panels of this view name, colour and measure them.

import type { UseOverTime, UseSeries } from "../../core/document";
import { roleColour } from "../../core/colours";
import { byteRate, energy, flops, percent, power, size, time } from "../../core/format";
import { t } from "../../core/language";

export type Key = UseSeries["key"];

const ROLES: Record<Key, string> = {
  tensor: "tensor", vector: "instruction", sm: "sm", memory: "memory", l2: "l2", link: "communication", h2d: "copy", d2h: "copy", power: "launch",
};

/** "SMs", where the language has a plural. */
export const plural = (label: string): string => t("{name}s", { name: label });

/** The unit's name. */
export function unitName(key: Key, label = "SM", memory: string | null = null): string {
  switch (key) {
    case "tensor": return t("Tensor cores");
    case "vector": return t("Vector lanes");
    case "sm": return t("{units} with work", { units: plural(label) });
    case "memory": return memory ? t("Device memory ({type})", { type: memory }) : t("Device memory");
    case "l2": return t("L2 cache");
    case "link": return t("Links to other devices");
    case "h2d": return t("Host to device");
    case "d2h": return t("Device to host");
    case "power": return t("Power");
  }
}

/** What the curve of a unit means, in a sentence. */
export function unitMeaning(key: Key): string {
  switch (key) {
    case "tensor": return t("FLOPs of matrix kernels over the dense peak of their dtype");
    case "vector": return t("share of the time that the lanes issue; float32 products without TF32 run here");
    case "sm": return t("multiprocessors that have at least one thread block");
    case "memory": return t("bytes read and written across device memory");
    case "l2": return t("bytes between the L2 cache and the multiprocessors");
    case "link": return t("bytes that collectives send");
    case "h2d": case "d2h": return t("copies over the host link");
    case "power": return t("at rest, and the energy of the work done");
  }
}

export const unitColour = (key: Key): string => roleColour(ROLES[key]);

/** A value of a curve in its unit. */
export function value(series: UseSeries, amount: number | null | undefined): string {
  if (series.unit === "share") return percent(amount);
  return series.unit === "W" ? power(amount) : byteRate(amount);
}

/** What the step holds in all, in words. */
export function total(series: UseSeries): string {
  switch (series.key) {
    case "tensor": return flops(series.total);
    case "sm": case "vector": return time(series.total);
    case "power": return energy(series.total);
    default: return size(series.total);
  }
}

/** Seconds of the step that the curves cover. */
export const stepSeconds = (use: UseOverTime): number => (use.end_ns - use.start_ns) * 1e-9;

/** Mean of a curve over the step. */
export const average = (series: UseSeries): number => series.values.reduce((sum, v) => sum + v, 0) / Math.max(1, series.values.length);

/** Mean of a curve over its limit; null where there is no limit. */
export const share = (series: UseSeries, amount = average(series)): number | null => (series.limit ? amount / series.limit : null);

/** Mean of a curve between two moments. */
export function averageBetween(use: UseOverTime, series: UseSeries, from_ns: number, to_ns: number): number {
  const width = (use.end_ns - use.start_ns) / use.bins;
  let sum = 0, covered = 0;
  const first = Math.max(0, Math.floor((from_ns - use.start_ns) / width)), last = Math.min(use.bins - 1, Math.floor((to_ns - use.start_ns) / width));
  for (let i = first; i <= last; i++) {
    const inside = Math.min(to_ns, use.start_ns + (i + 1) * width) - Math.max(from_ns, use.start_ns + i * width);
    if (inside <= 0) continue;
    sum += (series.values[i] ?? 0) * inside;
    covered += inside;
  }
  return covered ? sum / covered : 0;
}

/** Where a limit comes from, in words; "" where it needs none. */
export const limitOrigin = (series: UseSeries): string => (series.limit_origin && series.limit_origin !== "computed" ? t(series.limit_origin) : "");

/** A figure that is a lower bound says so; "< 0.1 %" says enough by itself. */
export const atLeast = (series: UseSeries, text: string): string => (series.is_least && !text.includes("<") ? `≥ ${text}` : text);

/** The top of a curve's axis: its limit; more where the curve goes above it; its highest where none is known. */
export function topOf(series: UseSeries): number {
  const most = series.values.reduce((a, b) => Math.max(a, b), 0);
  if (series.limit === null) return most || 1;
  return most > series.limit * 1.001 ? most * 1.05 : series.limit;
}

/** Means of all curves over a stretch, each over its limit where there is one. */
export const means = (use: UseOverTime, from: number, to: number): { series: UseSeries; mean: number; share: number | null }[] =>
  use.series.map((series) => {
    const mean = averageBetween(use, series, from, to);
    return { series, mean, share: share(series, mean) };
  });
