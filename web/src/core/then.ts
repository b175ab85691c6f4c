// A step as a change would make it, made a run again so that it is drawn as the run is.

import type { KernelRow, Remedy, Run, Timeline } from "./document";

const made = new WeakMap<Remedy, Run>();

/** The run of a change: its step and timeline, of the rest nothing. */
export function runOf(run: Run, remedy: Remedy): Run {
  let found = made.get(remedy);
  if (!found) {
    found = {
      ...run, step_time_s: remedy.step_time_s, timeline: timelineOf(remedy), use: null, memory_curve: null, memory_blocks: null, idle_gaps: [], collective_waits: null,
      analysis: { ...run.analysis, step_s: remedy.step_time_s, critical_path: null, findings: [], idle_spots: [], memory: null, account: null },
    };
    made.set(remedy, found);
  }
  return found;
}

function timelineOf({ timeline: thin }: Remedy): Timeline {
  let at = 0;
  const start_ns = thin.start_ns.map((after) => (at += after)), none = thin.ops.map(() => 0);
  const names: string[] = [], modules: string[] = [];
  const number = (table: string[], value: string) => { const found = table.indexOf(value); return found >= 0 ? found : table.push(value) - 1; };
  const columns = { name: thin.ops.map(([name]) => number(names, name)), module: thin.ops.map(([, module]) => number(modules, module)), phase: thin.ops.map(([, , phase]) => phase) };
  return {
    origin: "predicted", notes: [], names: thin.names, kinds: thin.kinds, lanes: thin.lanes.map((lane) => ({ ...lane, device: lane.kind === "host" ? -1 : 0 })),
    steps: thin.steps, events_total: start_ns.length + thin.left_out, truncation: "",
    events: { start_ns, duration_ns: thin.duration_ns, name: thin.name, kind: thin.kind, lane: thin.lane, op: thin.op, kernel: thin.family, correlation: thin.correlation },
    // Of a kernel its family alone is known here.
    counters: [], kernels: thin.families.map((kind) => ({ kind, group: "" }) as KernelRow), collectives: [], sources: [], recorded: null,
    ops: { names, modules, signatures: [], columns: { ...columns, signature: none, repeat: thin.ops.map(() => 1), recomputed: thin.ops.map(() => false), stream: none, sync: thin.ops.map(() => "") } },
  };
}
