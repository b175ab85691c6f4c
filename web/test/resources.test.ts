// Geometry and figures of the view "Resources".

import { describe, expect, it } from "vitest";
import type { Run, UseOverTime, UseSeries } from "../src/core/document";
import { drawDevice } from "../src/views/resources/device_picture";
import { cells, layoutOf, narrowest, thickness } from "../src/views/resources/device_layout";
import { envelope, holderModule, memoryPicture, stacked } from "../src/views/resources/memory_data";
import { besideRoofline, placed } from "../src/views/resources/roofline_beside";
import { dtypeOf, pointsAt, roofsOf, slopesOf, wholeStep } from "../src/views/resources/roofline_data";
import { keepClear, overlaps, radius, scalesOf, slope, tilt } from "../src/views/resources/roofline_layout";
import { average, averageBetween, share, topOf } from "../src/views/resources/units";

const series = (key: UseSeries["key"], values: number[], limit: number | null, total = 0): UseSeries =>
  ({ key, unit: "bytes/s", values, limit, total, parts: {}, known: 1, is_least: false, origin: "computed", limit_origin: "datasheet" });
const use = (all: UseSeries[]): UseOverTime => ({ rank: 0, start_ns: 1000, end_ns: 5000, bins: 4, series: all, phases: [], l2_bytes: { "gemm|bfloat16|1e+12|5e9|64": 1e10 }, matrix_flops: 2e9 });

const point = (group: string, intensity: number, time_s: number) => ({
  label: group, kind: "matmul", intensity_flops_per_byte: intensity, flops_per_s: 5e14, time_s, count: 1, limiter: "tensor_core", roof_flops_per_s: 9e14, kernel: "gemm", group,
});
const run = (extra: object = {}): Run => ({
  ranks: [0], use: use([series("tensor", [0.5, 0.5, 0.5, 0.5], 1, 2e9), series("memory", [1e12, 3e12, 0, 0], 4e12, 4e6)]),
  device: { l2_bytes_per_s: 7e12, memory_type: "HBM3e", host_link: { name: "PCIe", bandwidth_bytes_per_s: 6e10, origin: "datasheet" }, scale_up: { name: "NVLink", bandwidth_bytes_per_s: 4.5e11, origin: "datasheet" }, origins: {} },
  analysis: {
    step_s: 1, memory: null,
    roofline: { points: [point("gemm|bfloat16|1e+12|5e9|64", 200, 0.5), point("small|float16|1|1|1", 5, 1e-6)], peak_flops_per_s: { bfloat16: 9e14, float16: 9e14, float32: 6e13 }, memory_bandwidth_bytes_per_s: 4.8e12 },
  },
  ...extra,
}) as unknown as Run;

describe("use", () => {
  it("averages and shares", () => {
    const one = series("memory", [1, 3, 0, 0], 4);
    expect(average(one)).toBe(1);
    expect(share(one)).toBe(0.25);
    expect(share(series("memory", [1], null))).toBeNull();
  });
  it("averages between two moments, bins cut where they begin and end", () => {
    const one = series("memory", [1, 3, 0, 0], 4), all = use([one]);
    expect(averageBetween(all, one, 1000, 5000)).toBe(1);
    expect(averageBetween(all, one, 1500, 2500)).toBe(2);
    expect(averageBetween(all, one, 9000, 9500)).toBe(0);
  });
  it("has the limit as its top, unless the curve passes it", () => {
    expect(topOf(series("power", [300], 700))).toBe(700);
    expect(topOf(series("power", [900], 700))).toBeCloseTo(945);
    expect(topOf(series("link", [5], null))).toBe(5);
  });
});

describe("the device's picture", () => {
  const drawn = (all: UseSeries[]) => drawDevice({ run: { ...run(), timeline: null, use: use(all) } } as never, { name: "a device", compute_units: 132, compute_unit_label: "SM", memory_type: "HBM3e", memory_bytes: 1e11, origins: {} } as never, 1000);
  it("says that it does not know which units had work, and draws none of them idle", () => {
    const without = drawn([series("tensor", [0.3, 0.3, 0.4, 0.3], 1)]);
    expect(without.textContent).toContain("SMs with work: not available");
    expect(without.querySelectorAll(".cell.unknown")).toHaveLength(1);
    const known = drawn([{ ...series("sm", [1, 1, 0, 0], 1), unit: "share" }]);
    expect(known.textContent).not.toContain("not available");
    expect(known.querySelectorAll(".cell.unknown")).toHaveLength(0);
  });
});

describe("roofline", () => {
  it("says what has no bubble, by name and share", () => {
    const some = run(), roof = some.analysis.roofline!;
    roof.beside = [{ kind: "pointwise", time_s: 0.4, count: 3, moved_bytes: 1.6e12, bytes_per_s: 4e12, memory_share: 0.833 }, { kind: "collective", time_s: 0.1, count: 1, moved_bytes: 0, bytes_per_s: null, memory_share: null }];
    expect(placed(some)).toEqual({ bubbles: 0.5, beside: 0.5, short: expect.closeTo(1e-6, 9) });
    const shown = besideRoofline({ run: some } as never)!;
    const rows = [...shown.querySelectorAll("li")].map((row) => row.textContent);
    expect(rows[0]).toContain("pointwise · 400 ms");
    expect(rows[0]).toContain("4.00 TB/s, 83.3 % of memory");
    expect(rows[1]).toContain("bandwidth not available");
    expect(rows[1]).not.toMatch(/B\/s/);
  });
  it("knows the dtype of a group", () => expect(dtypeOf("gemm_128x256|bfloat16|1e+12|5e9|64")).toBe("bfloat16"));
  it("knows it in older files by the label", () => {
    const old = run();
    (old.analysis.roofline as { points: object[] }).points = [{ ...point("", 200, 0.5), label: "mm 8x8, 8x8 fp32" }];
    expect(pointsAt(old, "memory").map((p) => p.dtype)).toEqual(["float32"]);
  });
  it("leaves out kernels that are too short to see", () => expect(pointsAt(run(), "memory").map((p) => p.x)).toEqual([200]));
  it("counts bytes at the L2 cache where the tile tells them", () => {
    expect(pointsAt(run(), "l2").map((p) => p.x)).toEqual([100]);
    expect(pointsAt(run({ use: null }), "l2")).toEqual([]);
  });
  it("shows only roofs that occur", () => expect(roofsOf(run(), pointsAt(run(), "memory"))).toEqual([{ flops_per_s: 9e14, dtypes: ["bfloat16"] }]));
  it("has a slope for each level, links only where they were used", () => {
    expect(slopesOf(run()).map((s) => s.key)).toEqual(["l2", "memory", "host"]);
    expect(slopesOf(run({ ranks: [0, 1] })).map((s) => s.key)).toEqual(["l2", "memory", "link", "host"]);
  });
  it("sums the step at each level", () => {
    const [memory] = wholeStep(run());
    expect(memory).toMatchObject({ key: "memory", intensity: 500, bytes: 4e6 });
    expect((memory?.flops_per_s ?? 0) / 5e14).toBeCloseTo(1);
    expect(memory?.reach).toBeCloseTo(4e6 / 4e-6 / 4.8e12);
  });
  it("holds all values on its scales, with the ridge inside", () => {
    const s = scalesOf([3, 5000], [1e12, 8e14], { x: 200, y: 9e14 }, 800, 400);
    for (const x of [3, 200, 5000]) expect(s.x(x)).toBeGreaterThan(s.left), expect(s.x(x)).toBeLessThan(s.right);
    for (const y of [1e12, 9e14]) expect(s.y(y)).toBeGreaterThanOrEqual(s.top), expect(s.y(y)).toBeLessThanOrEqual(s.bottom);
  });
  it("ends a slope at its roof", () => {
    const s = scalesOf([10, 1000], [1e12], { x: 200, y: 1e15 }, 800, 400), line = slope(s, 5e12, 1e15);
    expect(line?.x2).toBeCloseTo(s.x(200));
    expect(line?.y2).toBeCloseTo(s.y(1e15));
    expect(tilt(line as NonNullable<typeof line>)).toBeLessThan(0);
    expect(slope(s, 1, 1e15)).toBeNull();
  });
  it("drops labels that would cover others", () => {
    const a = { x: 0, y: 0, width: 10, height: 10 }, b = { ...a, x: 5 }, c = { ...a, x: 20 };
    expect(overlaps(a, b)).toBe(true);
    expect(keepClear([a, b, c])).toEqual([true, false, true]);
    expect(keepClear([c], [c])).toEqual([false]);
  });
  it("has areas that stand for time", () => expect(radius(1, 4, 20) ** 2 / radius(4, 4, 20) ** 2).toBeCloseTo(0.25));
});

describe("memory", () => {
  it("keeps the highest value of each slice, and what is held into it", () => {
    expect(envelope([0, 1, 1.5, 3], [5, 9, 2, 1], 4, 4)).toEqual([5, 9, 2, 2]);
  });
  it("stacks layers without gaps", () => {
    expect(stacked([{ bytes: [1, 2] }, { bytes: [3, 4] }])).toEqual([{ low: [0, 0], high: [1, 2] }, { low: [1, 2], high: [4, 6] }]);
  });
  it("lays what stays at the ground", () => {
    const memory = { time_s: [0, 1], allocated_bytes: [1, 2], peak_bytes: 2 };
    const found = memoryPicture(run({ analysis: { ...run().analysis, memory }, memory_curve: { time_ns: [100, 200], categories: ["activation", "parameter"], allocated_bytes: [[1, 2], [3, 4]] } }));
    expect(found?.layers.map((l) => l.name)).toEqual(["parameter", "activation"]);
    expect(found?.origin_ns).toBe(100);
    expect(memoryPicture(run())).toBeNull();
  });
  it("finds the module in a holder's label", () => {
    expect(holderModule("h.0.mlp aten::gelu ×12", new Set(["h.0.mlp"]))).toBe("h.0.mlp");
    expect(holderModule("exp_avg ×148", new Set(["h"]))).toBe("");
  });
});

describe("device", () => {
  it("fits its cells into the box, in whole rows where that costs little", () => {
    const box = { x: 0, y: 0, width: 560, height: 150 }, grid = cells(132, box);
    expect(grid.columns * grid.rows).toBe(132);
    expect(grid.columns * (grid.size + grid.gap)).toBeLessThanOrEqual(box.width + 1e-9);
    expect(grid.rows * (grid.size + grid.gap)).toBeLessThanOrEqual(box.height + 1e-9);
    expect(cells(1, box).columns).toBe(1);
    expect(cells(131, box).columns).toBeGreaterThan(10);
  });
  it("stays inside its width, wide and narrow", () => {
    for (const width of [320, 362, 759, 760, 1190]) {
      const at = layoutOf(width, true);
      for (const box of [at.gpu, at.units, at.l2, at.memory, at.host, at.others as NonNullable<typeof at.others>]) {
        expect(box.x).toBeGreaterThanOrEqual(0);
        expect(box.x + box.width).toBeLessThanOrEqual(width);
        expect(box.y + box.height).toBeLessThanOrEqual(at.height);
      }
    }
    expect(layoutOf(1000, false).others).toBeNull();
  });
  it("draws a way that carries more thicker", () => {
    expect(thickness(6e10)).toBeLessThan(thickness(4.8e12));
    expect(thickness(1)).toBe(8);
    expect(thickness(1e20)).toBe(30);
  });
  it("names the highest share, power and presence apart", () => {
    const found = narrowest(use([series("sm", [1], 1), series("power", [700], 700), series("memory", [1, 1], 4), series("l2", [1], 8)]));
    expect(found?.series.key).toBe("memory");
    expect(found?.share).toBe(0.25);
    expect(narrowest(null)).toBeNull();
  });
});
