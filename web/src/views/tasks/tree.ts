// The folded modules as a tree, and what of a module is drawn: time, FLOPs, parameters or memory.

import type { ModuleShare, Run } from "../../core/document";

export type Measure = "time" | "flops" | "parameters" | "peak";
export const MEASURES: readonly Measure[] = ["time", "flops", "parameters", "peak"];

/** One part of the model; `own` is the work of a module that none of its children explains. */
export interface Part {
  /** Path as the page's selections name it; "" is the whole model (or, without a row, the step). */
  path: string;
  /** What is written on it. */
  label: string;
  row: ModuleShare | null;
  own: boolean;
  children: Part[];
  parent: Part | null;
  value: Record<Measure, number>;
  /** Which colour it has with all that is below it; -1 for the trunk. */
  branch: number;
}

/** Words that the tree needs in the reader's language. */
export interface TreeWords { step: string; model: string; own: string; phase: (name: string) => string }

export const valuesOf = (row: ModuleShare): Record<Measure, number> => ({
  time: row.time_s, flops: row.flops, parameters: row.parameters, peak: row.peak_bytes ?? 0,
});

const nothing = (): Record<Measure, number> => ({ time: 0, flops: 0, parameters: 0, peak: 0 });

/** Measures that some module has. */
export const measuresOf = (rows: readonly ModuleShare[]): Measure[] =>
  MEASURES.filter((measure) => rows.some((row) => valuesOf(row)[measure] > 0));

/** The last part of a path; folded layers are "{0..11} ×12". */
export function shortPath(path: string): string {
  const folded = /\{(\d+)\.\.(\d+)\}$/.exec(path);
  return folded ? `${folded[0]} ×${Number(folded[2]) - Number(folded[1]) + 1}` : path.slice(path.lastIndexOf(".") + 1);
}

/** What is written on a module: its name; one that is only a number is told by its class, too. */
export function moduleLabel(row: ModuleShare): string {
  const short = shortPath(row.path);
  return /^\d+$/.test(short) && row.class_name ? `${short} ${row.class_name}` : short;
}

/** The tree of a run's modules under one root, which stands for the whole step. */
export function moduleTree(run: Pick<Run, "modules_folded">, words: TreeWords): Part {
  const root: Part = { path: "", label: words.step, row: null, own: false, children: [], parent: null, value: nothing(), branch: -1 };
  const above: Part[] = [root];
  for (const row of run.modules_folded) {
    above.length = row.depth + 1;
    const parent = above[row.depth] ?? root;
    const label = row.path.startsWith("(") ? words.phase(row.path.slice(1, -1)) : moduleLabel(row) || row.class_name || words.model;
    const part: Part = { path: row.path, label, row, own: false, children: [], parent, value: valuesOf(row), branch: -1 };
    parent.children.push(part);
    above.push(part);
  }
  for (const measure of MEASURES) root.value[measure] = sumOf(root.children, measure);
  for (const child of root.children) finish(child, words.own);
  colour(root);
  return root;
}

const sumOf = (parts: readonly Part[], measure: Measure): number => parts.reduce((sum, part) => sum + part.value[measure], 0);

/** Join a module with its only child where both are the same, and give its own work a part. */
function finish(part: Part, own: string): void {
  while (part.children.length === 1 && same(part, part.children[0] as Part)) {
    const child = part.children[0] as Part;
    Object.assign(part, { path: child.path, row: child.row, children: child.children, label: `${part.label}.${child.label}` });
    for (const grandchild of part.children) grandchild.parent = part;
  }
  for (const child of part.children) finish(child, own);
  if (part.children.length === 0 || !part.row) return;
  const value = nothing();
  for (const measure of MEASURES) {
    const left = part.value[measure] - sumOf(part.children, measure);
    if (left > part.value[measure] * 1e-6) value[measure] = left;
  }
  if (MEASURES.some((measure) => value[measure] > 0)) {
    part.children.push({ path: part.path, label: own, row: null, own: true, children: [], parent: part, value, branch: -1 });
  }
}

const near = (a: number, b: number): boolean => Math.abs(a - b) <= Math.abs(a) * 1e-9;
const same = (a: Part, b: Part): boolean => MEASURES.every((measure) => near(a.value[measure], b.value[measure]));

/** What holds most of its parent belongs to the trunk; of all else the largest are coloured first. */
function colour(root: Part): void {
  const branches: Part[] = [];
  const visit = (part: Part): void => {
    for (const child of part.children) {
      if (child.own) continue;
      if (child.children.length > 0 && child.value.time > part.value.time * 0.6) visit(child);
      else branches.push(child);
    }
  };
  visit(root);
  branches.sort((a, b) => b.value.time - a.value.time);
  const kin = (part: Part) => part.label.replace(/^\d+ /, "").replace(/[\d{}_.]+.*$/, "");
  const often = new Map<string, number>();
  for (const part of branches) often.set(kin(part), (often.get(kin(part)) ?? 0) + 1);
  // Many parts with one name and a number ("Linear_17") share a colour; all others have their own.
  const keys = branches.map((part) => ((often.get(kin(part)) as number) > 8 ? kin(part) : part));
  const order = [...new Set(keys)];
  branches.forEach((part, i) => paint(part, order.indexOf(keys[i] as string | Part)));
}

function paint(part: Part, branch: number): void {
  part.branch = branch;
  for (const child of part.children) paint(child, branch);
}

/** From the root down to a part. */
export function trail(part: Part): Part[] {
  const found: Part[] = [];
  for (let at: Part | null = part; at; at = at.parent) found.unshift(at);
  return found;
}

/** The part of a path; null if it is not drawn. */
export function partAt(root: Part, path: string): Part | null {
  for (const child of root.children) {
    if (!child.own && child.path === path) return child;
    const found = partAt(child, path);
    if (found) return found;
  }
  return null;
}
