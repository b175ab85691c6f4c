// Groups of equal kernels: what the analysis, the timeline and the roofline say of each, in one.

import type { KernelRow, RooflinePoint, Run, Task } from "../../core/document";
import { DEVICE_KINDS, type Model } from "../../core/model";

export interface KernelGroup {
  /** Key that links the views ("" where a recording has none). */
  key: string;
  /** Operator and shapes, for people. */
  label: string;
  kind: string;
  /** Device time and launches of a step. */
  time_s: number;
  count: number;
  /** One of its kernels: the one that occurs most. */
  kernel: KernelRow | null;
  task: Task | null;
  point: RooflinePoint | null;
  /** Its operator in the timeline (row of `ops`), -1 if unknown. */
  op: number;
}

const known = new WeakMap<Model, KernelGroup[]>();

/** All kernel groups of a run, longest first; what is not of the compute units included. */
export function kernelGroups(model: Model): KernelGroup[] {
  let found = known.get(model);
  if (!found) known.set(model, (found = made(model)));
  return found;
}

function made(model: Model): KernelGroup[] {
  const { run } = model;
  const events = tally(model);
  const points = new Map((run.analysis.roofline?.points ?? []).map((point) => [point.group, point]));
  const seen = new Set<string>();
  const groups = run.analysis.tasks.map((task): KernelGroup => {
    const key = keyOf(run, task);
    seen.add(key);
    const own = events.get(key);
    return { key, label: task.label, kind: task.kind, time_s: task.time_s, count: task.count, kernel: own?.kernel ?? null, task, point: points.get(key) ?? null, op: own?.op ?? -1 };
  });
  const share = 1 / Math.max(1, run.timeline?.steps.length ?? 1);
  for (const [key, own] of events) {
    if (seen.has(key) || !own.kernel) continue;
    groups.push({
      key, label: own.kernel.name, kind: own.kernel.kind, time_s: own.duration_ns * 1e-9 * share, count: Math.max(1, Math.round(own.count * share)),
      kernel: own.kernel, task: null, point: points.get(key) ?? null, op: own.op,
    });
  }
  return groups.sort((a, b) => b.time_s - a.time_s);
}

/** A task's key; runs written before keys were stored are found by symbol, grid and tile. */
export function keyOf(run: Run, task: Task): string {
  if (task.group) return task.group;
  const tile = task.tile.join();
  return run.timeline?.kernels.find((k) => k.name === task.kernel && k.grid === task.grid && k.tile.join() === tile)?.group ?? "";
}

interface Tally { count: number; duration_ns: number; kernel: KernelRow | null; op: number; most: number }

/** Events of each group: how many, how long, and the kernel that occurs most. */
function tally(model: Model): Map<string, Tally> {
  const tl = model.run.timeline, found = new Map<string, Tally>();
  if (!tl) return found;
  const ofKernel = new Map<number, number>();
  for (let i = 0; i < model.count; i++) {
    const g = model.groupOf[i] as number;
    if (g < 0 || (tl.events.kind[i] as number) >= DEVICE_KINDS) continue;
    const key = model.groups[g] as string, k = tl.events.kernel[i] as number;
    let own = found.get(key);
    if (!own) found.set(key, (own = { count: 0, duration_ns: 0, kernel: null, op: -1, most: 0 }));
    own.count += 1;
    own.duration_ns += tl.events.duration_ns[i] as number;
    const times = (ofKernel.get(k) ?? 0) + 1;
    ofKernel.set(k, times);
    if (times > own.most) {
      own.most = times;
      own.kernel = tl.kernels[k] ?? null;
    }
    if (own.op < 0) own.op = tl.events.op[i] as number;
  }
  return found;
}

/** The least time that the device could take for a kernel: by its peak, and by its bandwidth. */
export function ideal(run: Run, kernel: KernelRow): { compute_s: number | null; memory_s: number | null } {
  const roof = run.analysis.roofline;
  const peak = roof?.peak_flops_per_s[kernel.dtype];
  const rate = roof?.memory_bandwidth_bytes_per_s;
  return {
    compute_s: peak && kernel.flops > 0 ? kernel.flops / peak : null,
    memory_s: rate && kernel.least_bytes > 0 ? kernel.least_bytes / rate : null,
  };
}

/** Multiprocessors of the run's device: as recorded, else by the catalogue; 0 if unknown. */
export function unitsOf(run: Run): number {
  const recorded = new Set((run.timeline?.sources ?? []).flatMap((source: { devices: { sm_count: number | null }[] }) => source.devices.map((d) => d.sm_count)));
  recorded.delete(null);
  return recorded.size === 1 ? ([...recorded][0] as number) : (run.device?.compute_units ?? 0);
}
