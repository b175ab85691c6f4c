// Beside a finding: its lines, what to change, and the changed step as a run again.

// @vitest-environment jsdom
import { describe, expect, it } from "vitest";
import type { Finding, Remedy } from "../src/core/document";
import { Model } from "../src/core/model";
import { runOf as thenOf } from "../src/core/then";
import { remediesOf, sourceOf } from "../src/views/story/remedy";
import { onRemedyWish } from "../src/views/time/remedies";
import { KINDS, flow, pageOf, runOf } from "./time_fixture";

const REMEDY: Remedy = {
  findings: [1], step_time_s: 5e-5, change: "tf32", title: "TF32 for float32 products", speedup: 2, low: 1.5, high: 2.5, diff: "Written by gpuscope.\n\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n c\n", numerics: "TF32", price: null,
  timeline: {
    lanes: [{ name: "host main", kind: "host", rank: 0 }, { name: "stream 7", kind: "stream", rank: 0 }], steps: [{ start_ns: 0, end_ns: 50_000, rank: 0 }], kinds: KINDS,
    start_ns: [1000, 4000, 20_000], duration_ns: [500, 20_000, 25_000], lane: [0, 1, 1], kind: [5, 0, 0], name: [0, 1, 1], family: [-1, 0, 0], op: [-1, 0, 1], correlation: [1, 1, -1],
    left_out: 0, names: ["cudaLaunchKernel", "gemm"], families: ["matmul"], ops: [["aten::mm", "head", "forward"], ["aten::mm", "head", "backward"]],
  },
};

describe("a changed step", () => {
  it("is a run with its own times, operators and modules", () => {
    const run = thenOf(runOf(flow()), REMEDY), model = new Model(run, 0);
    expect([...model.start]).toEqual([1000, 5000, 25_000]);
    expect([...model.end]).toEqual([1500, 25_000, 50_000]);
    expect(model.eventsOfOperator("aten::mm")).toEqual([1, 2]);
    expect(run.timeline?.ops.columns.phase).toEqual(["forward", "backward"]);
    expect(run.step_time_s).toBe(5e-5);
    expect(thenOf(runOf(flow()), REMEDY)).toBe(run);
  });
});

describe("beside a finding", () => {
  const run = runOf(flow(), { run: { remedies: [REMEDY], source_lines: { "x.py:12": { first: 10, lines: ["    def f():", "", "        a()", "        b()", ""] }, "x.py:13": { first: 11, lines: ["", "        a()", "        b()", "", ""] } } } });
  const about = { events: [], operators: [], lines: ["x.py:12", "x.py:13", "gone.py:1"], idle: [], explains_s: 0 };
  it("stand the lines of its files, once and without their indent", () => {
    const found = sourceOf(pageOf([run]), { about } as unknown as Finding) as HTMLElement;
    expect([...found.querySelectorAll("li")].map((li) => [li.value, li.textContent, li.className])).toEqual([[10, "def f():", ""], [11, " ", ""], [12, "    a()", "tone-key"], [13, "    b()", "tone-key"]]);
    expect(sourceOf(pageOf([run]), { about: null } as unknown as Finding)).toBeNull();
  });
  it("stands what to change, as a patch from its first file on, and the way to its timeline", () => {
    const page = pageOf([run]), [found] = remediesOf(page, 1), wished: number[] = [];
    onRemedyWish((at) => { wished.push(at); return true; });
    expect(remediesOf(page, 0)).toEqual([]);
    expect([...(found as HTMLElement).querySelectorAll(".diff span")].map((line) => line.className)).toEqual(["file", "file", "place", "cut", "added", ""]);
    expect(found?.querySelector(".diff")?.textContent).toBe("--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n c\n");
    expect(found?.querySelector("p")?.textContent).toContain("2.00×");
    (found?.querySelector(":scope > button") as HTMLButtonElement).click();
    expect([wished, page.shown]).toEqual([[0], ["timeline-then"]]);
  });
});
