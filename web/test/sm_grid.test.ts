// Multiprocessors by time, by hand: a kernel of one and a half waves on four multiprocessors.

import { describe, expect, it } from "vitest";
import type { Run } from "../src/core/document";
import { Model } from "../src/core/model";
import { columnMeans, hasGrid, smGrid } from "../src/views/resources/sm_grid";
import { FLOW_LANES, flow, runOf } from "./time_fixture";

/** The kernel "add" runs from 60 to 90 µs: 6 blocks on 4 multiprocessors, one each. */
function filled(): Model {
  const run = runOf(flow(), { lanes: FLOW_LANES }), tl = run.timeline as NonNullable<Run["timeline"]>;
  tl.kernels = [{ group: "g", kind: "pointwise", name: "k", grid: 6, tile: [] }] as never;
  tl.events.kernel = tl.events.kind.map((k) => (tl.kinds[k] === "kernel" ? 0 : -1));
  run.device = { compute_units: 4 } as never;
  run.analysis.tasks = [{ label: "add", kind: "pointwise", count: 1, time_s: 3e-5, grid: 6, block: 128, tile: [], waves: 1.5, tail_loss: 0, occupancy: null, limiter: "memory", kernel: "k", group: "g" }] as never;
  return new Model(run, 0);
}

const rowOf = (model: Model, from: number, to: number, columns: number) => {
  const grid = smGrid(model, from, to, columns);
  return { grid, column: (c: number) => Array.from(grid.taken.slice(c * grid.units, (c + 1) * grid.units)).map((v) => Number(v.toFixed(3))) };
};

describe("multiprocessors by time", () => {
  it("shows full waves and the last one apart where a kernel is wide", () => {
    const { column } = rowOf(filled(), 60_000, 90_000, 6);
    expect(column(0)).toEqual([1, 1, 1, 1]);
    expect(column(5)).toEqual([1, 1, 0, 0]);
  });
  it("shows the mean of the waves where it is narrow, and nothing beside it", () => {
    const { grid, column } = rowOf(filled(), 0, 120_000, 4);
    expect(column(2)).toEqual([1, 1, 0.5, 0.5]);
    expect(column(3)).toEqual([0, 0, 0, 0]);
    expect(columnMeans(grid, 2)).toEqual({ taken: 0.75, working: 0.75 });
  });
  it("keeps the work at any width: the sum over time does not depend on the columns", () => {
    const model = filled(), sum = (columns: number) => {
      const { taken, working } = smGrid(model, 50_000, 100_000, columns);
      return [taken, working].map((shares) => shares.reduce((a, b) => a + b, 0) / columns);
    };
    for (const columns of [2, 7, 50, 300]) sum(columns).forEach((total, k) => expect(total).toBeCloseTo(sum(1000)[k] as number, 2));
    expect(hasGrid(model)).toBe(true);
  });
});
