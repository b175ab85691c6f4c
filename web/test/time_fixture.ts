// A small run by hand for the tests of the view "Time": times in microseconds, answers to be added up in the head.

import type { IdleGaps, Lane, PageData, Report, Run } from "../src/core/document";
import { Model } from "../src/core/model";
import type { ReportPage } from "../src/core/page";
import { Selections } from "../src/core/selection";

export const KINDS = ["kernel", "communication", "memcpy", "memset", "operator", "launch", "sync", "module", "step", "python", "other"];

export interface Row { at: number; long: number; name: string; kind: string; lane: number; correlation?: number; op?: number; kernel?: number }

const HOST: Lane = { name: "host main", kind: "host", rank: 0, device: -1 }, STREAM: Lane = { name: "stream 7", kind: "stream", rank: 0, device: 0 };

/** A run of given events. */
export function runOf(rows: Row[], extra: { lanes?: Lane[]; steps?: [number, number, number][]; analysis?: Record<string, unknown>; run?: Partial<Run>; gaps?: IdleGaps[] } = {}): Run {
  const sorted = [...rows].sort((a, b) => a.at - b.at || a.lane - b.lane), names = [...new Set(sorted.map((r) => r.name))];
  const column = (of: (row: Row) => number) => sorted.map(of);
  return {
    name: "test", target: "a device", device_id: "", origin: "measured", step_time_s: 1e-4, step_time_interval_s: [1e-4, 1e-4], ranks: [0], gpuscope_version: "0",
    modules_folded: [], kernels_explained: {}, device: null, idle_gaps: extra.gaps ?? [], measurement: null,
    analysis: { step_s: 1e-4, time: {}, classes: [], kinds: [], operators: [], phases: [], symbols: [], host: [], idle_spots: [], launches: null, copies: [], critical_path: null, ranks: null, communication: null, step_spread: null, ...extra.analysis },
    timeline: {
      origin: "measured", notes: [], names, kinds: KINDS, lanes: extra.lanes ?? [HOST, STREAM], events_total: rows.length, truncation: "",
      steps: (extra.steps ?? []).map(([start, end, rank]) => ({ start_ns: start * 1000, end_ns: end * 1000, rank })),
      events: {
        start_ns: column((r) => r.at * 1000), duration_ns: column((r) => r.long * 1000), name: column((r) => names.indexOf(r.name)), kind: column((r) => KINDS.indexOf(r.kind)),
        lane: column((r) => r.lane), op: column((r) => r.op ?? -1), kernel: column((r) => r.kernel ?? -1), correlation: column((r) => r.correlation ?? -1),
      },
      counters: [], kernels: [], collectives: [], sources: [], recorded: null,
      ops: {
        names: ["aten::mm", "aten::add"], modules: [""], signatures: [{ inputs: [], outputs: [] }],
        columns: { name: [0, 1], module: [0, 0], phase: ["forward", "backward"], signature: [0, 0], repeat: [1, 1], recomputed: [false, false], stream: [0, 0], sync: ["", ""] },
      },
    },
    ...extra.run,
  } as unknown as Run;
}

/** A step of one rank: data in under no kernel, two kernels, a collective half hidden, data out; 100 us in all, 20 idle. */
export const flow = (): Row[] => [
  { at: 0, long: 10, name: "Memcpy HtoD (Pageable -> Device)", kind: "memcpy", lane: 1 },
  { at: 5, long: 3, name: "aten::mm", kind: "operator", lane: 0, op: 0 }, { at: 6, long: 1, name: "cudaLaunchKernel", kind: "launch", lane: 0, op: 0, correlation: 1 },
  { at: 10, long: 30, name: "gemm", kind: "kernel", lane: 1, op: 0, correlation: 1 },
  { at: 30, long: 20, name: "ncclAllReduce", kind: "communication", lane: 2 },
  { at: 60, long: 30, name: "add", kind: "kernel", lane: 1, op: 1 },
  { at: 85, long: 15, name: "Memcpy DtoH (Device -> Pinned)", kind: "memcpy", lane: 2 },
];
export const FLOW_LANES: Lane[] = [HOST, STREAM, { name: "stream 20", kind: "stream", rank: 0, device: 0 }];

/** The page of some runs. */
export function pageOf(runs: Run[], index = 0, comparisons: unknown[] = []): ReportPage & { shown: string[] } {
  const report = { names: runs.map((_, i) => `run ${i}`), runs, comparisons, what_if: [] } as unknown as Report, shown: string[] = [];
  return { report, index, run: runs[index], model: new Model(runs[index], index), cursor: null, selections: new Selections(), chooseRun: () => undefined, show: (id) => shown.push(id), shown };
}

export const STRINGS: PageData["strings"] = {};

/** Pseudo-random numbers from 0 to 1, the same in every run (mulberry32). */
export function random(seed: number): () => number {
  let a = seed;
  return () => {
    a = (a + 0x6d2b79f5) | 0;
    let x = Math.imul(a ^ (a >>> 15), 1 | a);
    x = (x + Math.imul(x ^ (x >>> 7), 61 | x)) ^ x;
    return ((x ^ (x >>> 14)) >>> 0) / 4294967296;
  };
}
