// Memory over the step: one curve or a stack of categories, ready to draw.

import type { Run } from "../../core/document";

export interface MemoryPicture {
  /** Seconds from the curve's begin. */
  times: number[];
  /** Layers from the ground up; one ("allocated") where what holds the memory is not known. */
  layers: { name: string; bytes: number[] }[];
  /** The curve's begin on the timeline's clock; null where that is not known. */
  origin_ns: number | null;
  end_s: number;
}

/** What stays lies at the ground, what comes and goes on top. */
const ORDER = ["parameter", "buffer", "optimizer_state", "gradient", "cache", "workspace", "communication", "input", "activation", "temporary"];
const rank = (name: string): number => (ORDER.indexOf(name) < 0 ? ORDER.length : ORDER.indexOf(name));

/** What there is to draw; null where no curve is recorded. */
export function memoryPicture(run: Run): MemoryPicture | null {
  const m = run.analysis.memory;
  if (!m || !m.time_s.length) return null;
  const origin = originOf(run), last = m.time_s.at(-1) as number, end_s = Math.max(last, run.analysis.step_s || 0);
  const by = run.memory_curve;
  if (by && by.time_ns.length) {
    const start = by.time_ns[0] as number;
    return {
      times: by.time_ns.map((ns) => (ns - start) * 1e-9), origin_ns: start, end_s,
      layers: by.categories.map((name, i) => ({ name, bytes: by.allocated_bytes[i] as number[] })).sort((a, b) => rank(a.name) - rank(b.name)),
    };
  }
  return { times: m.time_s, layers: [{ name: "allocated", bytes: m.allocated_bytes }], origin_ns: origin, end_s };
}

/** Begin of the memory's curve: the first point of its counters. */
export function originOf(run: Run): number | null {
  const starts = (run.timeline?.counters ?? []).filter((c) => (c.name === "allocated" || c.name === "reserved") && c.time_ns.length).map((c) => c.time_ns[0] as number);
  return starts.length ? Math.min(...starts) : null;
}

/** Edges of a stack: for each layer its lower and upper curve. */
export function stacked(layers: { bytes: number[] }[]): { low: number[]; high: number[] }[] {
  let ground: number[] = layers[0] ? layers[0].bytes.map(() => 0) : [];
  return layers.map(({ bytes }) => {
    const low = ground;
    ground = ground.map((g, i) => g + (bytes[i] ?? 0));
    return { low, high: ground };
  });
}

/** The highest value in each slice of time; what is held at its begin counts too. */
export function envelope(times: number[], values: number[], end: number, columns: number): number[] {
  const begin = times[0] ?? 0, top = new Array<number>(columns).fill(-1), last = new Array<number>(columns).fill(-1);
  times.forEach((at, i) => {
    const k = Math.min(columns - 1, Math.max(0, Math.floor(((at - begin) / (end - begin || 1)) * columns)));
    top[k] = Math.max(top[k] as number, values[i] as number);
    last[k] = values[i] as number;
  });
  let held = values[0] ?? 0;
  return top.map((v, k) => {
    const shown = Math.max(v, held);
    if ((last[k] as number) >= 0) held = last[k] as number;
    return shown;
  });
}

/** The module that a holder's label names, with the rest of the label; "" where none is named. */
export function holderModule(label: string, modules: ReadonlySet<string>): string {
  const first = label.split(" ")[0] ?? "";
  return modules.has(first) ? first : "";
}
