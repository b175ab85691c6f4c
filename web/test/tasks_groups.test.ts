import { describe, expect, it } from "vitest";
import type { KernelRow, Run, Task } from "../src/core/document";
import { Model } from "../src/core/model";
import { ideal, kernelGroups, keyOf, splitOf, unitsOf } from "../src/views/tasks/groups";
import { chosenGroups, repeated } from "../src/views/tasks/kernel";
import { moduleEvents, ownEvents } from "../src/views/tasks/lit";
import { filling } from "../src/views/tasks/waves";
import { inWords } from "../src/views/tasks/wave_map";

const kernel = (name: string, group: string, more: Partial<KernelRow> = {}): KernelRow => ({
  name, group, kind: "pointwise", duration_s: 1e-6, low_s: 1e-6, high_s: 1e-6, flops: 0, read_bytes: 0, written_bytes: 0, least_bytes: 0,
  grid: 8, block: 128, tile: [], waves: 0, occupancy: null, limiter: "memory", dtype: "bfloat16", compute_s: 0, memory_s: 0, origin: "", lane: "compute", note: "", ...more,
});
const task = (name: string, group: string, time_s: number): Task => ({
  label: `${name} 4x4`, kind: "pointwise", count: 2, time_s, grid: 8, block: 128, tile: [], waves: 1, tail_loss: 0, occupancy: null, limiter: "memory", kernel: name, group,
});
const column = (...values: number[]) => values;

/** Device events of four kernels (the last ones after the steps or of another rank) and one call of the host, in modules a and a.b, and the optimizer. */
const run = {
  modules_folded: ["", "a", "a.b", "(optimizer)"].map((path, i) => ({ path, depth: [0, 1, 2, 0][i] })),
  analysis: {
    time: { 0: {} }, tasks: [task("relu", "g1", 5e-6), task("adam", "g2", 2e-6)],
    roofline: { points: [{ group: "g1", label: "relu" }], peak_flops_per_s: { bfloat16: 1e15 }, memory_bandwidth_bytes_per_s: 4e12 },
  },
  timeline: {
    steps: [{ rank: 0, start_ns: 0, end_ns: 30 }, { rank: 0, start_ns: 30, end_ns: 60 }], lanes: [{ rank: 0 }, { rank: 1 }], sources: [], names: ["x"],
    kernels: [kernel("relu", "g1"), kernel("adam", "g2"), kernel("copy", "g3", { lane: "copy_h2d", kind: "transfer" }), kernel("early", "g4")],
    ops: { names: ["aten::relu", "aten::adam"], modules: ["", "a", "a.b"], signatures: [], columns: { name: column(0, 1, 0), module: column(2, 0, 1), phase: ["forward", "optimizer", "forward"], signature: [0, 0, 0] } },
    events: {
      start_ns: column(0, 10, 20, 30, 40, 50, 70, 80, 41), duration_ns: column(5, 5, 5, 5, 100, 5, 7, 100, 100), name: column(0, 0, 0, 0, 0, 0, 0, 0, 0), kind: column(0, 0, 0, 0, 2, 4, 0, 2, 2),
      lane: column(0, 0, 0, 0, 0, 0, 0, 0, 1), op: column(0, 0, 2, 1, -1, 0, -1, -1, -1), kernel: column(0, 0, 0, 1, 2, -1, 3, 2, 2), correlation: column(0, 0, 0, 0, 0, 0, 0, 0, 0),
    },
  },
  device: { compute_units: 132 },
} as unknown as Run;
const model = new Model(run, 0);

describe("groups of kernels", () => {
  it("join tasks, events and the roofline; what is no task is a group as well", () => {
    const groups = kernelGroups(model);
    expect(groups.map((g) => [g.key, g.label, g.count])).toEqual([["g1", "relu 4x4", 2], ["g2", "adam 4x4", 2], ["g3", "copy", 1], ["g4", "early", 1]]);
    expect(groups[0]?.point?.label).toBe("relu");
    expect(groups[0]?.op).toBe(0);
    expect(groups[2]?.task).toBeNull();
    expect(groups[2]?.time_s).toBeCloseTo(50e-9, 15); // 100 ns inside two steps of the first rank; the second rank copies, too
    expect(groups[2]?.each_s).toBeCloseTo(100e-9, 15);
    expect(groups[3]?.time_s).toBe(0); // outside the steps
    expect(groups[3]?.each_s).toBeCloseTo(7e-9, 15);
    expect(kernelGroups(model)).toBe(groups);
  });

  it("are found by symbol and grid in runs without keys", () => {
    expect(keyOf(run, { ...task("adam", "", 1) })).toBe("g2");
    expect(keyOf(run, { ...task("nothing", "", 1) })).toBe("");
  });

  it("say the least time that the device could take, or nothing", () => {
    const found = ideal(run, kernel("gemm", "g", { flops: 2e12, least_bytes: 8e9 }));
    expect(found.compute_s).toBeCloseTo(2e-3);
    expect(found.memory_s).toBeCloseTo(2e-3);
    expect(ideal(run, kernel("x", "g", { dtype: "int4", flops: 1 })).compute_s).toBeNull();
    expect(ideal({ ...run, analysis: { ...run.analysis, roofline: null } }, kernel("x", "g", { flops: 1, least_bytes: 1 }))).toEqual({ compute_s: null, memory_s: null });
  });

  it("know the device's multiprocessors as recorded, else by the catalogue", () => {
    expect(unitsOf(run)).toBe(132);
    const recorded = { ...run, timeline: { ...run.timeline, sources: [{ devices: [{ sm_count: 114 }] }] } } as unknown as Run;
    expect(unitsOf(recorded)).toBe(114);
    expect(unitsOf({ ...run, device: null })).toBe(0);
  });

  it("are split into waves, by their tiles where blocks stay", () => {
    const product = (inputs: number[][], tile: number[]) => {
      const shapes = { ...run, timeline: { ...run.timeline, ops: { columns: { signature: [0] }, signatures: [{ inputs: inputs.map((shape) => ({ shape })) }] } } } as unknown as Run;
      const [m, k] = inputs[0] as [number, number], n = (inputs[1] as number[])[1] as number;
      const own = { ...task("gemm", "g", 1), grid: 132, waves: 1, tile };
      return splitOf(shapes, { key: "g", label: "", kind: "matmul", time_s: 1, count: 1, each_s: 1, kernel: kernel("gemm", "g", { flops: 2 * m * n * k }), task: own, point: null, op: 0 });
    };
    expect(product([[8192, 8192], [8192, 8192]], [320, 128]).found?.waves).toBe(13);
    const unsure = product([[100, 64], [64, 100000]], [128, 256]);
    expect(unsure).toMatchObject({ unsure: true, tiles: [391, 782], found: { waves: 1 } });
    expect(product([[128, 64], [64, 128]], [128, 128])).toMatchObject({ unsure: false, found: { waves: 1 } });
    expect(splitOf(run, kernelGroups(model)[2] as never)).toEqual({ found: null, tiles: null, unsure: false });
  });

  it("are those of a selection, longest first", () => {
    const selection = { groups: new Set(["g3", "g1"]) } as never;
    expect(chosenGroups(kernelGroups(model), selection).map((g) => g.key)).toEqual(["g1", "g3"]);
    expect(chosenGroups(kernelGroups(model), null)).toEqual([]);
  });
});

describe("events of modules", () => {
  it("hold what is below; phases outside the model have rows of their own", () => {
    expect(moduleEvents(model, "a")).toEqual([0, 1, 2, 5]);
    expect(moduleEvents(model, "a.b")).toEqual([0, 1, 5]);
    expect(ownEvents(model, "a")).toEqual([2]);
    expect(moduleEvents(model, "(optimizer)")).toEqual([3]);
    expect(moduleEvents(model, "")).toEqual([0, 1, 2, 5]);
  });
});

describe("words", () => {
  it("tell how a grid fills the device", () => {
    const tail = filling(300, 300 / 132, 132), full = filling(264, 2, 132), small = filling(66, 0.5, 132);
    expect(inWords(tail as never, "SM", 90e-6)).toContain("In the last wave 36 places are taken and 96 stay empty: 24.2 %");
    expect(inWords(tail as never, "SM", 90e-6)).toContain("21.8 µs");
    expect(inWords(full as never, "SM", null)).toContain("no tail");
    expect(inWords(small as never, "SM", null)).toContain("66 places stay empty: the kernel is smaller than the machine");
  });

  it("count equal inputs", () => {
    expect(repeated(["a", "a", "b", "a"])).toEqual([["a", 2], ["b", 1], ["a", 1]]);
  });
});
