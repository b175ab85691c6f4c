// Two runs on each other: the same work, whatever time it takes in each.

import { describe, expect, it } from "vitest";
import { Model } from "../src/core/model";
import { align, carried } from "../src/views/time/align";
import { type Row, runOf } from "./time_fixture";

/** Kernels of a step one after the other: operator (0: aten::mm, 1: aten::add) and length in microseconds. */
function model(work: [op: number, long: number][], length = 100): Model {
  let at = 0;
  const rows = work.map(([op, long]): Row => { const row = { at, long, name: "k", kind: "kernel", lane: 1, op }; at += long; return row; });
  return new Model(runOf(rows, { steps: [[0, length, 0]] }), 0);
}

describe("alignment", () => {
  it("carries begins, ends and the middle of work to those of the same work", () => {
    const a = model([[0, 10], [1, 20], [0, 30]]), b = model([[0, 20], [1, 10], [0, 15]]), found = align(a, b);
    expect(found?.shared).toBe(1);
    if (!found) return;
    const to = (us: number) => carried(found.a, found.b, us * 1000) / 1000;
    expect([0, 5, 10, 20, 30, 45, 60].map(to)).toEqual([0, 10, 20, 25, 30, 37.5, 45]);
    for (const us of [0, 3, 11, 29, 44]) expect(carried(found.b, found.a, to(us) * 1000)).toBeCloseTo(us * 1000, 6);
  });
  it("steps over work that the other run has not, and never goes back", () => {
    const a = model([[0, 10], [1, 20], [0, 30]]), b = model([[0, 20], [0, 15]]), found = align(a, b);
    expect(found?.shared).toBeCloseTo(40 / 60);
    if (!found) return;
    const times = Array.from({ length: 101 }, (_, us) => carried(found.a, found.b, us * 1000));
    expect(times.every((time, i) => i === 0 || time >= (times[i - 1] as number))).toBe(true);
    expect(carried(found.a, found.b, 45_000)).toBe(27_500);
  });
  it("goes by time where nothing is shared, the whole step on the whole step", () => {
    const a = model([[0, 10]], 100), b = model([[1, 10]], 50), found = align(a, b);
    expect(found?.shared).toBe(0);
    if (found) expect(carried(found.a, found.b, 50_000)).toBe(25_000);
  });
  it("keeps the distance before the step and after it", () => {
    expect(carried([10, 20], [100, 300], 5)).toBe(95);
    expect(carried([10, 20], [100, 300], 25)).toBe(305);
  });
});
