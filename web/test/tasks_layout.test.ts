import { describe, expect, it } from "vitest";
import type { ModuleShare } from "../src/core/document";
import { icicle, squarify, treemap, type Rect } from "../src/views/tasks/layout";
import { measuresOf, moduleLabel, moduleTree, partAt, shortPath, trail, type Part } from "../src/views/tasks/tree";

const box: Rect = { x: 10, y: 20, width: 600, height: 400 };
const overlap = (a: Rect, b: Rect): number =>
  Math.max(0, Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x)) * Math.max(0, Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y));

describe("squarify", () => {
  it("gives each value its share of the area, without overlap, inside the box", () => {
    const values = [6, 6, 4, 3, 2, 2, 1, 0];
    const found = squarify(values, box);
    values.forEach((v, i) => expect((found[i] as Rect).width * (found[i] as Rect).height).toBeCloseTo((v / 24) * 240000, 4));
    for (let i = 0; i < found.length; i++) {
      const a = found[i] as Rect;
      expect(a.x).toBeGreaterThanOrEqual(10 - 1e-9);
      expect(a.x + a.width).toBeLessThanOrEqual(610 + 1e-6);
      expect(a.y + a.height).toBeLessThanOrEqual(420 + 1e-6);
      for (let j = i + 1; j < found.length; j++) expect(overlap(a, found[j] as Rect)).toBeLessThan(1e-6);
    }
  });

  it("draws the example of the paper: 6x4 with 6, 6, 4, 3, 2, 2, 1", () => {
    const [a, b, c] = squarify([6, 6, 4, 3, 2, 2, 1], { x: 0, y: 0, width: 6, height: 4 }) as [Rect, Rect, Rect];
    expect(a).toEqual({ x: 0, y: 0, width: 3, height: 2 });
    expect(b).toEqual({ x: 0, y: 2, width: 3, height: 2 });
    expect(c.width * c.height).toBeCloseTo(4);
    expect(c.height).toBeCloseTo(7 / 3);
  });

  it("gives nothing an area of nothing", () => {
    expect(squarify([0, 0], box).every((r) => r.width * r.height === 0)).toBe(true);
    expect(squarify([], box)).toEqual([]);
  });
});

const module_ = (path: string, depth: number, time_s: number, more: Partial<ModuleShare> = {}): ModuleShare => ({
  path, depth, time_s, class_name: "", self_s: 0, forward_s: 0, backward_s: 0, flops: 0, parameters: 0, peak_bytes: null, count: 1, ...more,
});
const words = { step: "step", model: "model", own: "itself", phase: (name: string) => name };
const rows = [
  module_("", 0, 10, { parameters: 8 }), module_("h", 1, 7, { parameters: 6 }), module_("h.{0..3}", 2, 7, { parameters: 6, count: 4 }),
  module_("h.{0..3}.a", 3, 3, { parameters: 2 }), module_("h.{0..3}.b", 3, 4, { parameters: 4 }),
  module_("head", 1, 2, { parameters: 4 }), module_("(optimizer)", 0, 5),
];

describe("the tree of modules", () => {
  const tree = moduleTree({ modules_folded: rows }, words);

  it("holds the whole step, joins a list with its layers, and gives own work a part", () => {
    expect(tree.value.time).toBe(15);
    expect(tree.children.map((c) => c.label)).toEqual(["model", "optimizer"]);
    const model = tree.children[0] as Part;
    expect(model.children.map((c) => [c.label, c.value.time])).toEqual([["h.{0..3} ×4", 7], ["head", 2], ["itself", 1]]);
    expect((model.children[0] as Part).path).toBe("h.{0..3}");
    expect(trail(partAt(tree, "h.{0..3}.b") as Part).map((p) => p.label)).toEqual(["step", "model", "h.{0..3} ×4", "b"]);
    expect(partAt(tree, "nothing")).toBeNull();
  });

  it("names measures that exist only", () => {
    expect(measuresOf(rows)).toEqual(["time", "parameters"]);
    expect(shortPath("a.h.{0..11}")).toBe("{0..11} ×12");
    expect(shortPath("a.h.{0..11}.mlp")).toBe("mlp");
    expect(shortPath("")).toBe("");
    expect(moduleLabel(module_("net.2", 1, 1, { class_name: "ReLU" }))).toBe("2 ReLU");
    expect(moduleLabel(module_("net.act", 1, 1, { class_name: "ReLU" }))).toBe("act");
  });

  it("gives every branch beside the trunk its own colour", () => {
    const branches = new Set(["h.{0..3}.a", "h.{0..3}.b", "head", "(optimizer)"].map((p) => (partAt(tree, p) as Part).branch));
    expect(branches.size).toBe(4);
    expect(branches.has(-1)).toBe(false);
  });

  it("is drawn by share; children that are more than their parent share its width", () => {
    const cells = icicle(tree, (p) => p.value.time, 1500, 20);
    expect(cells.find((c) => c.part.path === "(optimizer)")?.width).toBeCloseTo(500);
    const shared = icicle(tree, (p) => p.value.parameters, 1000, 20);
    const model = shared.filter((c) => c.level === 2);
    expect(model.reduce((sum, c) => sum + c.width, 0)).toBeCloseTo(1000);
    const nested = treemap(tree, (p) => p.value.time, { x: 0, y: 0, width: 900, height: 600 });
    for (const cell of nested) {
      const around = nested.find((c) => c.part === cell.part.parent);
      if (around) expect(overlap(cell, around)).toBeCloseTo(cell.width * cell.height, 4);
    }
  });
});
