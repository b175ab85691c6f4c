// Lanes of the timeline: phases and modules, amounts, and the sums of a stretch; by hand.

import { describe, expect, it } from "vitest";
import type { Run } from "../src/core/document";
import { Model } from "../src/core/model";
import { sharesOf } from "../src/views/time/account_shares";
import { countersOf } from "../src/views/time/lanes";
import { nestOf, tokens } from "../src/views/time/nest";
import { accountOf, families } from "../src/views/time/stretch";
import { FLOW_LANES, flow, pageOf, runOf } from "./time_fixture";

const tl = (run: Run) => run.timeline as NonNullable<Run["timeline"]>;

/** Two kernels, 30 µs each, of one group: forward in "h.0.mlp", backward in "h.1". */
function run(): Run {
  const made = runOf([{ at: 0, long: 30, name: "mm", kind: "kernel", lane: 1, op: 0 }, { at: 30, long: 30, name: "mm", kind: "kernel", lane: 1, op: 1 }, { at: 70, long: 10, name: "copy", kind: "memcpy", lane: 1 }]);
  tl(made).ops.modules = ["m.h.0.mlp", "m.h.1"];
  tl(made).ops.columns.module = [0, 1];
  tl(made).kernels = [{ group: "g", kind: "matmul" }] as never;
  tl(made).events.kernel = [0, 0, -1];
  made.analysis.account = { terms: [], by_group: { g: { peak: 1, library: 3 } } };
  return made;
}

describe("phases and modules", () => {
  it("keeps a number with what it numbers", () => expect(tokens("model.layers.10.mlp.0.act")).toEqual(["model", "layers.10", "mlp.0", "act"]));
  it("joins neighbours of one module and phase, and knows their events", () => {
    const nest = nestOf(new Model(run(), 0), 0, 0);
    if (!nest) throw new Error("no nest");
    const told = nest.rows.map((row) => [...row.index].map((i) => row.spans.label(i)));
    expect(told).toEqual([["forward", "backward"], ["m", "m"], ["h.0", "h.1"], ["mlp"]]);
    const [deepest] = nest.rows[3].index;
    expect(nest.title(deepest)).toBe("m.h.0.mlp · forward");
    expect(nest.events(deepest)).toEqual([0]);
  });
  it("has none where no operator is known", () => expect(nestOf(new Model(runOf([{ at: 0, long: 1, name: "x", kind: "kernel", lane: 1 }]), 0), 0, 0)).toBeNull());
});

describe("lanes of amounts", () => {
  it("stacks memory, and leaves the counter of its sum out", () => {
    const made = run();
    tl(made).counters = [{ name: "allocated", unit: "bytes", time_ns: [0, 5], value: [1, 2] }];
    expect(countersOf(made).map((c) => c.name)).toEqual(["allocated"]);
    made.analysis.memory = { time_s: [0, 1e-6], peak_bytes: 12 } as never;
    made.memory_curve = { time_ns: [0, 1000], categories: ["activation", "parameter"], allocated_bytes: [[0, 7], [5, 5]] };
    const [memory, ...rest] = countersOf(made);
    expect(rest).toEqual([]);
    expect(memory.value).toEqual([5, 12]);
    expect(memory.layers?.map((layer) => layer.upTo)).toEqual([[5, 12], [5, 5]]);
  });
});

describe("a stretch", () => {
  it("sums what lies in it by family and by the account, idle time too", () => {
    const made = run(), page = pageOf([made]), model = page.model;
    expect(families(model, 15_000, 80_000, 0).map((p) => [p.key, Math.round(p.seconds * 1e6)])).toEqual([["matmul", 45], ["memcpy", 10]]);
    expect(sharesOf(model, 0)).toEqual([["peak", 0.25], ["library", 0.75]]);
    const account = new Map(accountOf(page, 0, 100_000, 0).map((p) => [p.key, Math.round(p.seconds * 1e6)]));
    expect(account).toEqual(new Map([["library", 45], ["idle", 30], ["peak", 15], ["transfers", 10]]));
  });
  it("shares the time of what runs beside each other", () => {
    const page = pageOf([runOf(flow(), { lanes: FLOW_LANES })]);
    const whole = accountOf(page, 0, 100_000, 0).reduce((sum, part) => sum + part.seconds, 0);
    expect(whole).toBeCloseTo(1e-4, 12);
  });
});
