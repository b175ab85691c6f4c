// Figures of the view "Time": flows, unions, ranks, waits, steps, choosers.

import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { FAMILY_COLOURS } from "./time_colours";
import type { CriticalPath } from "../src/core/document";
import { Model } from "../src/core/model";
import { companions, longestOf } from "../src/views/time/belongs";
import { causeColour } from "../src/views/time/causes";
import { axisTime, before } from "../src/views/time/draw";
import { contrastInk, luminance } from "../src/views/time/ink";
import { filled, lengthOf, minus, union } from "../src/views/time/intervals";
import { linksOf } from "../src/views/time/links";
import { eventsWithin } from "../src/views/time/moment";
import { sameOperators } from "../src/views/time/beside";
import { dominant } from "../src/views/time/path";
import { PATH_KINDS, pathLine } from "../src/views/time/path_line";
import { rankParts } from "../src/views/time/rank_bars";
import { parseRanks, spelled } from "../src/views/time/rank_chooser";
import { matches } from "../src/views/time/search";
import { columns, legOf, stripData } from "../src/views/time/strip_data";
import { cutName, shortName } from "../src/views/time/symbol";
import { waitsFor } from "../src/views/time/waits_matrix";
import { typicalStep, windowOf } from "../src/views/time/window";
import { FLOW_LANES, flow, random, runOf } from "./time_fixture";

const SOURCES = "../src/gpuscope/analysis";

describe("intervals", () => {
  it("unites, subtracts and fills", () => {
    const a = union([[10, 20], [0, 5], [15, 30], [40, 40]]);
    expect(a).toEqual({ start: [0, 10], end: [5, 30] });
    expect(minus(a, union([[3, 12], [20, 22]]))).toEqual({ start: [0, 12, 22], end: [3, 20, 30] });
    expect(filled(a, 0, 40, 4)).toEqual([0.5, 1, 1, 0]);
  });
  it("keeps length: what is in both and what is not add up", () => {
    const next = random(9), some = () => union(Array.from({ length: 40 }, (): [number, number] => { const s = next() * 100; return [s, s + next() * 8]; }));
    for (let i = 0; i < 50; i++) {
      const a = some(), b = some();
      expect(lengthOf(minus(a, b)) + lengthOf(b)).toBeCloseTo(lengthOf(minus(b, a)) + lengthOf(a), 9);
      expect(filled(a, 0, 120, 37).reduce((sum, part) => sum + (part * 120) / 37, 0)).toBeCloseTo(lengthOf(a), 6);
    }
  });
});

describe("the step's flow", () => {
  const run = runOf(flow(), { lanes: FLOW_LANES, steps: [[0, 100, 0]] }), strip = stripData(run);
  const leg = (name: string) => strip?.rows.find((row) => row.leg === name);
  it("tells how long each leg takes and how much of it is not hidden", () => {
    expect(strip?.rows.map((row) => row.leg)).toEqual(["in", "compute", "communication", "return"]);
    expect(leg("in")?.total_s).toBeCloseTo(10e-6, 12);
    expect(leg("compute")?.total_s).toBeCloseTo(60e-6, 12);
    expect([leg("communication")?.total_s, leg("communication")?.exposed_s].map((s) => Math.round((s as number) * 1e6))).toEqual([20, 10]);
    expect([leg("return")?.total_s, leg("return")?.exposed_s].map((s) => Math.round((s as number) * 1e6))).toEqual([15, 10]);
  });
  it("adds up to the step", () => {
    const sum = (strip?.rows ?? []).reduce((total, row) => total + row.exposed_s, strip?.idle_s ?? 0);
    expect(sum).toBeCloseTo(strip?.step_s as number, 12);
    expect(strip?.idle_s).toBeCloseTo(10e-6, 12);
  });
  it("divides by the steps of the window", () => {
    const two = stripData(runOf([...flow(), ...flow().map((r) => ({ ...r, at: r.at + 100 }))], { lanes: FLOW_LANES, steps: [[0, 100, 0], [100, 200, 0]] }));
    expect(two?.rows.find((row) => row.leg === "compute")?.total_s).toBeCloseTo(60e-6, 12);
  });
  it("knows the way of a copy by its name, else by its lane", () => {
    const tl = runOf([{ at: 0, long: 1, name: "x", kind: "memcpy", lane: 1 }, { at: 2, long: 1, name: "Memcpy DtoD", kind: "memcpy", lane: 0 }],
      { lanes: [FLOW_LANES[1], { name: "copy H2D", kind: "copy", rank: 0, device: 0 }] }).timeline;
    expect([legOf(tl as never, 0), legOf(tl as never, 1)]).toEqual(["in", "within"]);
  });
  it("draws what is hidden pale", () => {
    const drawn = columns(leg("communication") as never, { start: 0, end: 100_000, steps: 1 }, 100);
    expect(drawn.map((c) => [c.first, c.last, c.bare])).toEqual([[30, 39, 0], [40, 49, 1]]);
  });
  it("is nothing without device work", () => expect(stripData(runOf([{ at: 0, long: 5, name: "aten::mm", kind: "operator", lane: 0 }]))).toBeNull());
});

describe("windows and steps", () => {
  it("takes the analysis' window, else the marks, else the span of the device's work", () => {
    const path = { start_ns: 7, end_ns: 77, steps: 2 };
    expect(windowOf(runOf(flow(), { lanes: FLOW_LANES, analysis: { critical_path: path } }))).toEqual({ start: 7, end: 77, steps: 2 });
    expect(windowOf(runOf(flow(), { lanes: FLOW_LANES, steps: [[1, 50, 0], [50, 90, 0]] }))).toEqual({ start: 1000, end: 90_000, steps: 2 });
    expect(windowOf(runOf(flow(), { lanes: FLOW_LANES }))).toEqual({ start: 0, end: 100_000, steps: 1 });
  });
  it("takes the step of median length for a comparison", () => {
    const run = runOf(flow(), { lanes: FLOW_LANES, steps: [[0, 50, 0], [50, 80, 0], [80, 115, 0]] });
    expect(typicalStep(run)).toEqual([80_000, 115_000]);
  });
});

describe("events", () => {
  const model = new Model(runOf(flow(), { lanes: FLOW_LANES }), 0), at = (name: string) => model.run.timeline!.events.name.findIndex((n) => model.run.timeline!.names[n] === name);
  it("are chosen with their operator's other events", () => expect(companions(model, at("gemm"))).toEqual({ title: "mm", events: [at("aten::mm"), at("cudaLaunchKernel"), at("gemm")] }));
  it("without an operator are chosen by name", () => expect(companions(model, at("ncclAllReduce"))).toEqual({ title: "ncclAllReduce", events: [at("ncclAllReduce")] }));
  it("are linked from the launch to its work, and from the call around it", () => {
    expect(linksOf(model, at("gemm"))).toEqual([[at("cudaLaunchKernel"), at("gemm")]]);
    expect(linksOf(model, at("aten::mm"))).toEqual([[at("cudaLaunchKernel"), at("gemm")]]);
    expect(linksOf(model, at("add"))).toEqual([]);
  });
  it("are not linked across ranks", () => {
    const lanes = [FLOW_LANES[0], FLOW_LANES[1], { ...FLOW_LANES[1], rank: 1 }];
    const two = new Model(runOf([{ at: 0, long: 1, name: "l", kind: "launch", lane: 0, correlation: 4 }, { at: 2, long: 1, name: "a", kind: "kernel", lane: 1, correlation: 4 }, { at: 3, long: 1, name: "b", kind: "kernel", lane: 2, correlation: 4 }], { lanes }), 0);
    expect(linksOf(two, 1)).toEqual([[0, 1]]);
  });
  it("within a stretch are those that touch it", () => expect(eventsWithin(model, 41_000, 59_000, null)).toEqual([at("ncclAllReduce")]));
  it("are searched by name", () => expect([...matches(model, "memcpy")].map((m, i) => (m ? i : -1)).filter((i) => i >= 0)).toEqual([at("Memcpy HtoD (Pageable -> Device)"), at("Memcpy DtoH (Device -> Pinned)")]));
  it("are searched by operator, module, phase, family and source line too", () => {
    const run = runOf(flow(), { lanes: FLOW_LANES }), tl = run.timeline!;
    tl.ops.modules = ["", "transformer.h.0.mlp", "lm_head"];
    tl.ops.sites = ["model.py:12", ""];
    Object.assign(tl.ops.columns, { module: [2, 1], site: [0, 1] });
    tl.kernels = [{ kind: "matmul" }] as never;
    tl.events.kernel = tl.events.kernel.map((_, i) => (tl.names[tl.events.name[i]] === "gemm" ? 0 : -1));
    const own = new Model(run, 0), named = (wanted: string) => [...matches(own, wanted)].map((m, i) => (m ? tl.names[tl.events.name[i]] : "")).filter(Boolean);
    expect(named("lm_head")).toEqual(["aten::mm", "cudaLaunchKernel", "gemm"]);
    expect(named("aten::add")).toEqual(["add"]);
    expect(named("mlp backward")).toEqual(["add"]);
    expect(named("lm_head backward")).toEqual([]);
    expect(named("model.py:12 gemm")).toEqual(["gemm"]);
    expect(named("matmul")).toEqual(["gemm"]);
  });
  it("of the device come before longer ones of the host", () => expect(longestOf(model, [at("aten::mm"), at("Memcpy HtoD (Pageable -> Device)")])).toBe(at("Memcpy HtoD (Pageable -> Device)")));
  it("of another run are lit by operator", () => expect([...sameOperators(model, new Set(["aten::add"]))].indexOf(1)).toBe(at("add")));
});

describe("names", () => {
  it("of C++ symbols are the function and what it was made for", () => {
    expect(shortName("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>)")).toBe("vectorized_elementwise_kernel · CUDAFunctor_add");
    expect(shortName("void at::native::(anonymous namespace)::fused_dropout_kernel_vec<float, 1>(at::Info)")).toBe("fused_dropout_kernel_vec");
    expect(shortName("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float> > >(int)")).toBe("reduce_kernel · MeanOps");
    expect(shortName("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)")).toBe("ncclDevKernel_AllReduce_Sum_f32_RING_LL");
  });
  it("of others stay", () => {
    for (const name of ["Memcpy HtoD (Pageable -> Device)", "Memset (Device)", "FSDP::all_gather (0)", "train.py(46): step", "nvjet_sm90_tst_128x256_64x4", "autograd::engine::evaluate_function: MmBackward0"]) expect(shortName(name)).toBe(name);
    expect(shortName("aten::mm")).toBe("mm");
  });
  it("are cut for a tooltip", () => expect(cutName("x".repeat(500)).length).toBe(120));
});

describe("the critical path", () => {
  const path = { start_ns: 0, end_ns: 100, steps: 1, segment_start_ns: [0, 30, 90], segment_kind: [3, 0, 0], segment_name: [0, 1, 1], segment_lane: [0, 1, 1], names: ["op", "gemm"] } as unknown as CriticalPath;
  it("is coloured by what takes most of a column", () => expect(dominant(path, 4)).toEqual(["host operator", "kernel", "kernel", "kernel"]));
  it("lights the events that it runs over", () => {
    const rows = [{ at: 0, long: 30, name: "op", kind: "operator", lane: 0 }, { at: 30, long: 70, name: "gemm", kind: "kernel", lane: 1 }, { at: 40, long: 9, name: "other", kind: "operator", lane: 0 }];
    const scaled = { ...path, end_ns: 100_000, segment_start_ns: [0, 30_000, 90_000] };
    const line = pathLine(new Model(runOf(rows, { analysis: { critical_path: scaled } }), 0), 0);
    expect([...(line?.mask ?? [])]).toEqual([1, 1, 0]);
    expect([...(line?.end ?? [])]).toEqual([30_000, 90_000, 100_000]);
  });
  it("has the kinds that the analysis has, in its order", () => {
    const source = readFileSync(`${SOURCES}/critical_path.py`, "utf8"), body = /PATH_KINDS[^(]*\(([^)]*)\)/.exec(source)?.[1] ?? "";
    expect([...body.matchAll(/"([^"]+)"/g)].map((m) => m[1])).toEqual(PATH_KINDS);
  });
});

describe("ranks", () => {
  const time = { span_s: 10, busy_s: 9, idle_s: 1, compute_s: 5, communication_s: 4, exposed_communication_s: 3, copy_s: 2, idle_by_cause: {} };
  it("have parts that add up to their span", () => {
    const story = { ranks: [{ rank: 0, exposed_transfer_s: 1, exposed_waiting_s: 3 }] };
    const [told, alone] = rankParts(runOf([], { analysis: { time: { 0: time, 1: time }, ranks: story } }));
    for (const r of [told, alone]) expect(r.compute_s + r.transfer_s + r.waiting_s + r.communication_s + r.copy_s + r.idle_s).toBeCloseTo(r.span_s, 12);
    expect([told.transfer_s, told.waiting_s, told.copy_s]).toEqual([0.75, 2.25, 1]);
    expect(alone.communication_s).toBe(3);
  });
  it("wait for the one that came last", () => {
    const call = { ranks: [0, 2, 5], waits_s: [3, 0, 1], last: 2 }, { ranks, seconds } = waitsFor([call, { ...call, waits_s: [1, 0, 1] }] as never);
    expect(ranks).toEqual([0, 2, 5]);
    expect(seconds).toEqual([[0, 4, 0], [0, 0, 0], [0, 2, 0]]);
  });
  it("are written and read as a short text", () => {
    const all = Array.from({ length: 64 }, (_, i) => i);
    expect(spelled([8, 0, 1, 2, 10, 9])).toBe("0-2, 8-10");
    expect([...parseRanks("0-2, 8, 99", all)]).toEqual([0, 1, 2, 8]);
    expect(parseRanks("none", all).size).toBe(0);
    expect(spelled([...parseRanks(spelled([3, 4, 40]), all)])).toBe("3-4, 40");
  });
});

describe("words and colours", () => {
  it("writes the axis in the unit of the visible stretch", () => {
    expect(axisTime(2_500_000, 10_000_000)).toBe("2.5 ms");
    expect(axisTime(79_700_000, 40_000)).toBe("79,700 µs");
    expect(axisTime(1.5e9, 3e9)).toBe("1.5 s");
  });
  it("finds the reading that holds at a time", () => {
    const times = Float64Array.from([10, 20, 30]);
    expect([9, 10, 25, 99].map((t) => before(times, t))).toEqual([-1, 0, 1, 2]);
  });
  it("writes on every colour so that it can be read (4.5 to 1)", () => {
    for (const colour of FAMILY_COLOURS) {
      const ink = luminance(contrastInk(colour)), ground = luminance(colour);
      expect((Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05), colour).toBeGreaterThan(4.5);
    }
  });
  it("gives each cause of idle time a colour of its own", () => {
    const source = readFileSync(`${SOURCES}/idle.py`, "utf8"), body = /IDLE_CAUSES[^(]*\(([^)]*)\)/.exec(source)?.[1] ?? "";
    const causes = [...body.matchAll(/"([^"]+)"/g)].map((m) => m[1]);
    expect(causes.length).toBeGreaterThan(5);
    expect(new Set(causes.map(causeColour)).size).toBe(causes.length);
  });
});
