// Blocks of explanations: positions of sliders, cells under the pointer, edges of boxes, sentences.

import { beforeAll, describe, expect, it } from "vitest";
import { chosen } from "../src/app/claims";
import { drawBlock } from "../src/blocks";
import { edge, wrapped } from "../src/blocks/diagram";
import { filled, position } from "../src/blocks/explorer";
import { under } from "../src/blocks/heatmap";
import { binarySteps, crowded, decades, isNarrow, linesOption, tiers } from "../src/blocks/lines";
import type { Claim, ExplorerBlock, HeatMapBlock } from "../src/core/document";
import { setLanguage } from "../src/core/language";

const w = (en: string, zh = en) => ({ en, zh });

beforeAll(() => {
  globalThis.ResizeObserver ??= class { observe() {} unobserve() {} disconnect() {} } as unknown as typeof ResizeObserver;
  setLanguage("en");
});

const explorer: ExplorerBlock = {
  block: "explorer", title: w("t"), x: "n", log_x: false, log_y: false, note: null, reading: w("{n} on {d}: {v}", "{d} 上 {n}：{v}"),
  sliders: [{ key: "d", label: w("device"), values: ["a", "b"], unit: "", start: 0 }, { key: "n", label: w("n"), values: [1, 2, 3], unit: "", start: 1 }],
  outputs: [{ key: "v", label: w("v"), unit: "s", values: [1, 2, 3, 4, 5, 6], low: [], high: [], plotted: true, role: "other" }],
};

describe("explorer", () => {
  it("runs the last slider fastest", () => {
    expect(position(explorer.sliders, [0, 0])).toBe(0);
    expect(position(explorer.sliders, [1, 2])).toBe(5);
  });
  it("fills its sentence in the reader's language", () => {
    expect(filled(explorer, [1, 0], 3)).toBe("1 on b: 4 s");
    setLanguage("zh");
    expect(filled(explorer, [1, 0], 3)).toBe("b 上 1：4 s");
    setLanguage("en");
  });
  it("follows its sliders", () => {
    const element = drawBlock(explorer);
    const slider = element.querySelector("input") as HTMLInputElement;
    expect(element.querySelector(".reading")?.textContent).toBe("2 on a: 2 s");
    slider.value = "2";
    slider.dispatchEvent(new Event("input"));
    expect(element.querySelector(".reading")?.textContent).toBe("3 on a: 3 s");
    expect(slider.getAttribute("aria-valuetext")).toBe("3");
  });
});

describe("heat map", () => {
  const block = { block: "heatmap", values: [[0, 1], [null, 2]], x_labels: [], y_labels: [] } as unknown as HeatMapBlock;
  it("finds the cell under the pointer", () => {
    expect(under(block, 64, 6, 264, 10)).toEqual({ row: 0, column: 0, value: 0 });
    expect(under(block, 263, 17, 264, 10)).toEqual({ row: 1, column: 1, value: 2 });
    expect(under(block, 10, 10, 264, 10)).toBeNull();
    expect(under(block, 100, 40, 264, 10)).toBeNull();
  });
});

describe("diagram", () => {
  const box = (x: number, y: number) => ({ key: "", label: w(""), kind: "", x, y, width: 0.2, height: 0.2, detail: null, cells: 0 });
  it("lets lines begin at the edge of a box", () => {
    expect(edge(box(0.2, 0.5), box(0.8, 0.5), 100, 100)).toEqual([33, 50]);
    expect(edge(box(0.5, 0.2), box(0.5, 0.8), 100, 100)).toEqual([50, 33]);
  });
});

describe("every block", () => {
  it("is drawn with its figures", () => {
    const facts = drawBlock({ block: "facts", title: null, rows: [{ label: w("time"), value: 0.001, unit: "s", origin: "measured", low: 0.0009, high: 0.0012, note: null }] });
    expect(facts.textContent).toContain("1.00 ms");
    expect(facts.textContent).toContain("900 µs to 1.20 ms");
    const bars = drawBlock({ block: "bars", title: w("b"), unit: "s", bars: [{ label: "x", parts: [{ label: w("p"), value: 1, role: "compute" }, { label: w("q"), value: 2, role: "idle" }], note: null }], limit: 4, limit_label: w("peak"), note: null });
    expect(bars.querySelector(".value")?.textContent).toBe("3 s");
    expect((bars.querySelector(".limit") as HTMLElement).style.left).toBe("100%");
    const table = drawBlock({ block: "table", title: w("t"), columns: [{ label: w("a"), unit: "" }, { label: w("b"), unit: "share" }], rows: [["x", 0.5], ["y", null]], marked: [1], note: null });
    expect(table.querySelector("tr.marked")?.textContent).toBe("ynot available");
    expect(table.querySelectorAll(".long").length).toBe(0);
    const long = drawBlock({ block: "table", title: w("t"), columns: [{ label: w("a"), unit: "" }, { label: w("b"), unit: "" }], rows: [["x", w("word ".repeat(20), "字")], ["y", "short"]], marked: [], note: null });
    expect([...long.querySelectorAll(".long")].map((each) => each.tagName)).toEqual(["TD"]); // it takes several lines
    const code = drawBlock({ block: "code", title: w("c"), language: "python", lines: [{ number: 7, text: "x = 1", note: w("note"), tone: "warning" }], note: null });
    expect(code.querySelector("li")?.getAttribute("value")).toBe("7");
  });
  it("of an unknown sort shows its title", () => {
    expect(drawBlock({ block: "hologram", title: w("new") } as never).textContent).toBe("new");
  });
});

describe("claims", () => {
  const claim = (id: string, verdict: string, topic = "a") => ({ id, verdict, topic: w(topic), claim: w(`claim ${id}`), claimed: "", unit: "", truth: null, evidence: null, method: "", sources: [] }) as Claim;
  const all = [claim("1", "right"), claim("2", "wrong", "b"), claim("3", "imprecise")];
  it("show what misleads first", () => {
    expect(chosen(all, { verdict: "", topic: "", text: "" }).map((c) => c.id)).toEqual(["2", "3", "1"]);
  });
  it("are filtered by verdict, topic and text", () => {
    expect(chosen(all, { verdict: "right", topic: "", text: "" }).map((c) => c.id)).toEqual(["1"]);
    expect(chosen(all, { verdict: "", topic: "b", text: "" }).map((c) => c.id)).toEqual(["2"]);
    expect(chosen(all, { verdict: "", topic: "", text: "CLAIM 3" }).map((c) => c.id)).toEqual(["3"]);
  });
});

describe("axes", () => {
  const series = (y: (number | null)[]) => [{ label: w("s"), x: [0, 50, 100], y, shape: "line" as const, role: "other", low: [], high: [] }];
  it("in powers of ten reach around the values", () => {
    const log = { label: w("y"), unit: "", log: true };
    expect(decades({ y: log, series: series([3, 40, null]) })).toEqual([1, 100]);
    expect(decades({ y: log, series: series([100, 100, 100]) })).toEqual([100, 1000]);
    expect(decades({ y: { ...log, log: false }, series: series([1, 2, 3]) })).toEqual([]);
    expect([crowded([0.5, 1.3], 10), crowded([1.33, 1.67], 10), crowded([0.05, 0.13], 10), crowded([1, 70], 10), crowded([], 10)]).toEqual([true, false, true, false, false]);
  });
  it("keep the names of near lines apart", () => {
    const mark = (x: number) => ({ label: w("m"), x, y: null, role: "reference" });
    const marks = [mark(10), mark(15), mark(90)];
    const found = tiers(marks, { x: { label: w("x"), unit: "", log: false }, series: series([1, 2, 3]) });
    expect(marks.map((m) => found.get(m))).toEqual([0, 1, 0]);
  });
});

describe("what must fit", () => {
  it("breaks the name of a box at blanks", () => {
    expect(wrapped("host memory (pageable)", 90)).toEqual(["host memory", "(pageable)"]);
    expect(wrapped("L2 cache", 200)).toEqual(["L2 cache"]);
    expect(wrapped("a b c d e", 1, 2)).toEqual(["a", "b c d e"]);
    expect(wrapped("显存", 10)).toEqual(["显存"]);
  });
  it("widens the room for long names of rows", () => {
    const block = { block: "heatmap", values: [[0]], x_labels: [], y_labels: ["a long name of a row"] } as unknown as HeatMapBlock;
    expect(under(block, 100, 8, 300, 10)).toBeNull();
    expect(under(block, 160, 8, 300, 10)).toEqual({ row: 0, column: 0, value: 0 });
  });
  it("puts memory on powers of two", () => {
    const series = [{ y: [0, 13.9 * 2 ** 30, null], high: [] }] as never;
    expect(binarySteps({ y: { unit: "bytes", log: false } as never, series })).toEqual({ interval: 2 ** 32, max: 2 ** 34 });
    expect(binarySteps({ y: { unit: "s", log: false } as never, series })).toEqual({});
    expect(binarySteps({ y: { unit: "bytes", log: true } as never, series })).toEqual({});
  });
  it("numbers marks on a narrow chart, and turns names inwards at the ends", () => {
    const mark = (x: number, en: string) => ({ label: { en, zh: en }, x, y: null, role: "reference" });
    const block = { x: { label: { en: "x", zh: "x" }, unit: "", log: false }, y: { label: { en: "y", zh: "y" }, unit: "s", log: false }, series: [{ label: { en: "s", zh: "s" }, x: [0, 100], y: [1, 2], low: [], high: [], shape: "line", role: "other" }], marks: [mark(2, "first"), mark(50, "middle"), mark(99, "last")] } as never;
    const labels = (width: number) => (linesOption(block, width) as { series: { markLine?: { data: { label: { formatter: string; align?: string } }[] } }[] }).series.at(-1)?.markLine?.data.map((d) => [d.label.formatter, d.label.align]);
    expect(labels(900)).toEqual([["first", "left"], ["middle", undefined], ["last", "right"]]);
    expect(labels(340)?.map((l) => l[0])).toEqual(["1", "2", "3"]);
    expect(isNarrow(0)).toBe(false);
  });
  it("reaches up to a limit above all curves", () => {
    const block = { x: { label: { en: "x", zh: "x" }, unit: "", log: false }, y: { label: { en: "y", zh: "y" }, unit: "s", log: false }, series: [{ label: { en: "s", zh: "s" }, x: [0, 100], y: [1, 2], low: [], high: [], shape: "line", role: "other" }], marks: [{ label: { en: "limit", zh: "上限" }, x: null, y: 7, role: "reference" }] } as never;
    const drawn = (linesOption(block) as { series: { data: { value: number[] }[] }[] }).series.at(-1)?.data.map((d) => d.value);
    expect(drawn).toEqual([[0, 7]]);
    expect(decades({ y: { unit: "", log: true }, series: [{ y: [2, 3], low: [], high: [] }], marks: [{ y: 70 }] } as never)).toEqual([1, 100]);
  });
});
