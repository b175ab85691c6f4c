// Groups of equal kernels: what the analysis, the timeline and the roofline say of each, in one.

import type { KernelRow, RooflinePoint, Run, Task } from "../../core/document";
import { DEVICE_KINDS, type Model } from "../../core/model";
import { type Filling, filling, tilesOf } from "./waves";

export interface KernelGroup {
  /** Key that links the views ("" where a recording has none). */
  key: string;
  /** Operator and shapes, for people. */
  label: string;
  kind: string;
  /** Device time and launches of a step; no time for what runs outside the analysed steps only. */
  time_s: number;
  count: number;
  /** Mean time of a launch. */
  each_s: number;
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
    return { key, label: task.label, kind: task.kind, time_s: task.time_s, count: task.count, each_s: task.time_s / Math.max(1, task.count), kernel: own?.kernel ?? null, task, point: points.get(key) ?? null, op: own?.op ?? -1 };
  });
  const rank = rankOf(run), steps = Math.max(1, run.timeline?.steps.filter((step) => step.rank === rank).length ?? 1);
  for (const [key, own] of events) {
    if (seen.has(key) || !own.kernel) continue;
    // Kernels of the compute units that are no task of the analysis ran outside its steps.
    const counts = own.kernel.lane !== "compute" || !computes(own.kernel.kind);
    groups.push({
      key, label: own.kernel.name, kind: own.kernel.kind, time_s: counts ? (own.inside_ns * 1e-9) / steps : 0, count: Math.max(1, Math.round(own.inside / steps)),
      each_s: (own.duration_ns * 1e-9) / own.count, kernel: own.kernel, task: null, point: points.get(key) ?? null, op: own.op,
    });
  }
  return groups.sort((a, b) => b.time_s - a.time_s);
}

const computes = (kind: string): boolean => kind !== "collective" && kind !== "transfer" && kind !== "memset";

/** The rank that the analysis describes: the first. */
const rankOf = (run: Run): number => Number(Object.keys(run.analysis.time)[0] ?? 0);

/** First and last moment of its marked steps; everything where none is marked. */
function marked(run: Run): [number, number] {
  const steps = (run.timeline?.steps ?? []).filter((step) => step.rank === rankOf(run));
  return steps.length ? [Math.min(...steps.map((s) => s.start_ns)), Math.max(...steps.map((s) => s.end_ns))] : [-Infinity, Infinity];
}

/** A task's key; runs written before keys were stored are found by symbol, grid and tile. */
export function keyOf(run: Run, task: Task): string {
  if (task.group) return task.group;
  const tile = task.tile.join();
  return run.timeline?.kernels.find((k) => k.name === task.kernel && k.grid === task.grid && k.tile.join() === tile)?.group ?? "";
}

interface Tally { count: number; duration_ns: number; inside: number; inside_ns: number; kernel: KernelRow | null; op: number; most: number }

/** Events of each group: how many, how long, and the kernel that occurs most. */
function tally(model: Model): Map<string, Tally> {
  const tl = model.run.timeline, found = new Map<string, Tally>();
  if (!tl) return found;
  const ofKernel = new Map<number, number>();
  const [from, to] = marked(model.run), rank = rankOf(model.run);
  for (let i = 0; i < model.count; i++) {
    const g = model.groupOf[i] as number;
    if (g < 0 || (tl.events.kind[i] as number) >= DEVICE_KINDS) continue;
    const key = model.groups[g] as string, k = tl.events.kernel[i] as number;
    let own = found.get(key);
    if (!own) found.set(key, (own = { count: 0, duration_ns: 0, inside: 0, inside_ns: 0, kernel: null, op: -1, most: 0 }));
    own.count += 1;
    own.duration_ns += tl.events.duration_ns[i] as number;
    const ours = tl.lanes[tl.events.lane[i] as number]?.rank === rank;
    if (ours && (model.start[i] as number) >= from && (model.start[i] as number) < to) {
      own.inside += 1;
      own.inside_ns += tl.events.duration_ns[i] as number;
    }
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

/** How a group's grid fills the device, with the tiles that it works off where they are known. */
export interface Split {
  found: Filling | null;
  /** Least and most tiles of a product; null where they are not known. */
  tiles: [number, number] | null;
  /** Blocks stay on their multiprocessors and work off more tiles than one, but how many is not sure. */
  unsure: boolean;
}

export function splitOf(run: Run, group: KernelGroup): Split {
  const { task } = group, units = unitsOf(run);
  if (!task) return { found: null, tiles: null, unsure: false };
  const ops = run.timeline?.ops, at = ops?.columns.signature[group.op], signature = at === undefined ? undefined : ops?.signatures[at];
  const tiles = signature && group.kind === "matmul" && group.kernel ? tilesOf(group.kernel.flops, signature.inputs.map((input) => input.shape), task.tile) : null;
  const sure = tiles !== null && tiles[0] === tiles[1];
  const found = filling(task.grid, task.waves, units, sure ? tiles[0] : 0);
  return { found, tiles, unsure: found !== null && !found.persistent && tiles !== null && !sure && found.pieces <= units && tiles[0] > found.pieces };
}
