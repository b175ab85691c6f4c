// Lanes of amounts over time: what the units do, memory by what it holds, and what a recording counted.

import { CATEGORIES, OTHER, roleColour } from "../../core/colours";
import type { Run, Timeline } from "../../core/document";
import { size } from "../../core/format";
import { t, word } from "../../core/language";
import { memoryPicture } from "../resources/memory_data";
import { type Key, topOf, unitColour, unitName, value } from "../resources/units";

/** An amount that holds until its next reading. */
export interface Counter {
  /** What it is of, in any language. */
  key: string;
  name: string;
  time: Float64Array;
  value: (number | null)[];
  /** Top of its lane. */
  most: number;
  colour: string;
  /** A reading in its unit. */
  told(amount: number | null | undefined): string;
  /** Amounts under it that it is the sum of, the largest sum first; drawn each in its colour. */
  layers?: { name: string; colour: string; upTo: (number | null)[]; own: number[] }[];
}

/** The device's units over the step that is looked at, memory, and what else was counted. */
export function countersOf(run: Run): Counter[] {
  const memory = memoryLane(run), counted = recorded(run.timeline as Timeline);
  return [...useLanes(run, counted), ...(memory ? [memory] : []), ...counted.filter((c) => !memory || (c.key !== "allocated" && c.key !== "reserved"))];
}

/** The unit's name; of device memory it is the rate, beside the lane of what is held in it. */
const laneName = (key: Key, label?: string): string => (key === "memory" ? t("Memory bandwidth") : unitName(key, label));

function useLanes(run: Run, counted: readonly Counter[]): Counter[] {
  const { use } = run;
  if (!use) return [];
  const width = (use.end_ns - use.start_ns) / use.bins, time = Float64Array.from({ length: use.bins + 1 }, (_, i) => use.start_ns + i * width);
  return use.series.filter((series) => !counted.some((c) => c.key === series.key)).map((series) => ({
    key: series.key, name: laneName(series.key, run.device?.compute_unit_label), time, value: [...series.values, 0], most: topOf(series), colour: unitColour(series.key), told: (amount) => value(series, amount),
  }));
}

/** Memory by what it holds; null where only its sum is counted. */
function memoryLane(run: Run): Counter | null {
  const picture = memoryPicture(run), origin = picture?.origin_ns;
  if (!picture || picture.layers.length < 2 || origin === null || origin === undefined) return null;
  const sums = new Array<number>(picture.times.length).fill(0), layers: NonNullable<Counter["layers"]> = [];
  for (const layer of picture.layers) {
    layer.bytes.forEach((bytes, i) => { sums[i] += bytes; });
    layers.unshift({ name: word(layer.name), colour: CATEGORIES[layer.name] ?? OTHER, upTo: [...sums], own: layer.bytes });
  }
  return { key: "held", name: t("Memory held"), time: Float64Array.from(picture.times, (s) => origin + s * 1e9), value: sums, most: Math.max(...sums), colour: roleColour("shared"), told: size, layers };
}

/** Counters that say something: more than one reading, some of them above zero. */
function recorded(tl: Timeline): Counter[] {
  return tl.counters.flatMap((counter) => {
    const readings = counter.value.filter((v): v is number => v !== null), most = readings.reduce((a, b) => Math.max(a, b), 0);
    if (readings.length < 2 || most <= 0) return [];
    const told = (amount: number | null | undefined) => (amount === null || amount === undefined ? t("not available") : counter.unit === "bytes" ? size(amount) : `${Number(amount.toPrecision(3))} ${counter.unit === "1" ? "" : counter.unit}`.trim());
    return [{ key: counter.name, name: t(counter.name), time: Float64Array.from(counter.time_ns), value: counter.value, most, colour: roleColour("shared"), told }];
  });
}
