// The moment of the play head: what runs, what units do, which wave; by hand.

import { describe, expect, it } from "vitest";
import { Cursor } from "../src/core/cursor";
import type { Run, UseSeries } from "../src/core/document";
import { Model } from "../src/core/model";
import { instantAt, lastAtOrBefore, memoryAt, nextWork, readingAt } from "../src/live/instant";
import { FLOW_LANES, flow, runOf } from "./time_fixture";

const series = (key: UseSeries["key"], limit: number, values = [0, 0]): UseSeries =>
  ({ key, unit: "share", values, limit, total: 0, parts: {}, known: 1, is_least: false, origin: "computed", limit_origin: "" });

function flowing(): Model {
  const run = runOf(flow(), { lanes: FLOW_LANES });
  const kernels = (run.timeline as NonNullable<Run["timeline"]>);
  kernels.kernels = [{ group: "g", kind: "pointwise" }] as never;
  kernels.events.kernel = kernels.events.kind.map((k) => (kernels.kinds[k] === "kernel" ? 0 : -1));
  run.use = { rank: 0, start_ns: 0, end_ns: 100_000, bins: 2, series: [], phases: [], l2_bytes: {}, matrix_flops: null };
  run.use_by_group = { g: { tensor_s: 15e-6, vector_s: 0, sm_share: 0.5, memory_bytes: 3e6, l2_bytes: null } };
  run.memory_curve = { time_ns: [0, 50_000], categories: ["parameter", "activation"], allocated_bytes: [[10, 10], [0, 7]] };
  return new Model(run, 0);
}

describe("a moment", () => {
  it("finds what runs, the longest first, and the next and last begin", () => {
    const model = flowing(), names = model.run.timeline?.names ?? [], name = (i: number) => names[model.run.timeline?.events.name[i] as number];
    const both = instantAt(model, 86_000);
    expect(both?.running.map(name)).toEqual(["add", "Memcpy DtoH (Device -> Pinned)"]);
    expect(name(both?.kernel as number)).toBe("add");
    expect(nextWork(model, 61_000, 1)).toBe(85_000);
    expect(nextWork(model, 61_000, -1)).toBe(60_000);
    expect(nextWork(model, 60_000, -1)).toBeLessThan(60_000);
    expect(nextWork(model, 85_000, 1)).toBeNull();
  });
  it("reads units off the running kernel's work over its time, and links off the curve", () => {
    const model = flowing(), instant = instantAt(model, 70_000);
    if (!instant) throw new Error("no moment");
    expect(readingAt(model.run, series("tensor", 1), instant)).toBeCloseTo(0.5); // 15 of 30 µs
    expect(readingAt(model.run, series("memory", 5e12), instant)).toBeCloseTo(1e11);
    expect(readingAt(model.run, series("memory", 4e10), instant)).toBe(4e10); // no more than it can do
    expect(readingAt(model.run, series("h2d", 1, [0.2, 0.7]), instant)).toBe(0.7);
    delete model.run.use_by_group?.g;
    expect(readingAt(model.run, series("tensor", 1), instant)).toBeNull();
  });
  it("holds memory until the next point", () => {
    const { run } = flowing();
    expect(memoryAt(run, 49_999)?.map((part) => part.bytes)).toEqual([10, 0]);
    expect(memoryAt(run, 50_000)?.map((part) => part.bytes)).toEqual([10, 7]);
  });
  it("finds the last of ascending numbers", () => {
    expect([0, 1, 2, 9].map((v) => lastAtOrBefore([1, 2, 2], v))).toEqual([-1, 0, 2, 2]);
  });
});

describe("the play head", () => {
  it("stays inside, tells of changes only, and stops telling what has left the page", () => {
    const cursor = new Cursor(10, 20), heard: (number | null)[] = [], element = document.body.appendChild(document.createElement("p"));
    cursor.onWhile(element, (at) => heard.push(at));
    for (const at of [5, 5, 15, null]) cursor.set(at);
    element.remove();
    cursor.set(12);
    expect(heard).toEqual([null, 10, 15, null]);
  });
});
