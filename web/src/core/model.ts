// A run made ready for drawing: typed columns, and which event belongs to what.

import type { ModuleShare, Run } from "./document";

export const DEVICE_KINDS = 4;

/** A run with its events as typed arrays, and the groups that link the views. */
export class Model {
  readonly start: Float64Array;
  readonly end: Float64Array;
  readonly count: number;
  /** Kernel groups (equal kernels): key of each group, and the group of each event (-1: none). */
  readonly groups: string[] = [];
  readonly groupOf: Int32Array;
  /** Module paths as they are drawn (equal layers folded), and the path of each event (-1: none). */
  readonly modules: string[];
  readonly moduleOf: Int32Array;
  /** Operator names, and the operator of each event (-1: none). */
  readonly operators: string[] = [];
  readonly operatorOf: Int32Array;

  constructor(readonly run: Run, readonly index: number) {
    const tl = run.timeline;
    const n = tl ? tl.events.start_ns.length : 0;
    this.count = n;
    this.start = Float64Array.from(tl?.events.start_ns ?? []);
    this.end = new Float64Array(n);
    this.groupOf = new Int32Array(n).fill(-1);
    this.moduleOf = new Int32Array(n).fill(-1);
    this.operatorOf = new Int32Array(n).fill(-1);
    this.modules = run.modules_folded.map((m) => m.path);
    if (!tl) return;
    const { duration_ns, kernel, op } = tl.events;
    const groupOfKernel = numbered(tl.kernels.map((k) => k.group), this.groups);
    const columns = tl.ops.columns;
    const operatorOfName = numbered(tl.ops.names, this.operators);
    const moduleOfPath = tl.ops.modules.map(folder(run.modules_folded));
    for (let i = 0; i < n; i++) {
      this.end[i] = (this.start[i] as number) + (duration_ns[i] as number);
      const k = kernel[i] as number, o = op[i] as number;
      if (k >= 0) this.groupOf[i] = groupOfKernel[k] as number;
      if (o >= 0 && columns.name[o] !== undefined) {
        this.operatorOf[i] = operatorOfName[columns.name[o] as number] as number;
        this.moduleOf[i] = moduleOfPath[columns.module[o] as number] ?? -1;
      }
    }
  }

  /** Events of a kernel group. */
  eventsOfGroup(key: string): number[] {
    return this.where(this.groupOf, this.groups.indexOf(key));
  }

  /** Events of an operator (device work and the host's calls). */
  eventsOfOperator(name: string): number[] {
    return this.where(this.operatorOf, this.operators.indexOf(name));
  }

  /** Events of a module and of all that is below it; "" is the whole model. */
  eventsOfModule(path: string): number[] {
    const inside = this.modules.map((m) => path === "" || m === path || m.startsWith(`${path}.`));
    const found: number[] = [];
    for (let i = 0; i < this.count; i++) {
      const m = this.moduleOf[i] as number;
      if (m >= 0 && inside[m]) found.push(i);
    }
    return found;
  }

  /** Events for which a test holds. */
  eventsWhere(test: (event: number) => boolean): number[] {
    const found: number[] = [];
    for (let i = 0; i < this.count; i++) if (test(i)) found.push(i);
    return found;
  }

  private where(column: Int32Array, value: number): number[] {
    const found: number[] = [];
    if (value < 0) return found;
    for (let i = 0; i < column.length; i++) if (column[i] === value) found.push(i);
    return found;
  }
}

/** Number equal texts alike; `table` receives the distinct ones. */
function numbered(texts: string[], table: string[]): number[] {
  const numbers = new Map<string, number>();
  return texts.map((text) => {
    let number = numbers.get(text);
    if (number === undefined) {
      number = table.push(text) - 1;
      numbers.set(text, number);
    }
    return number;
  });
}

/** Find the drawn module of a true path: folded layers are written "h.{0..11}". */
export function folder(modules: ModuleShare[]): (path: string) => number {
  const exact = new Map(modules.map((m, i) => [m.path, i]));
  const folded = modules.flatMap((m, i) => (m.path.includes("{") ? [{ i, test: tester(m.path) }] : []));
  const find = (path: string) => exact.get(path) ?? folded.find((f) => f.test(path))?.i ?? -1;
  const known = new Map<string, number>();
  return (path) => {
    let found = known.get(path);
    if (found === undefined) {
      found = find(path);
      // A module that is not drawn counts to the nearest one above it.
      for (let above = path; found < 0 && above !== ""; ) {
        above = above.includes(".") ? above.slice(0, above.lastIndexOf(".")) : "";
        found = find(above);
      }
      known.set(path, found);
    }
    return found;
  };
}

function tester(folded: string): (path: string) => boolean {
  const parts = folded.replaceAll("..", "\u0000").split(".").map((part) => {
    const range = /^\{(\d+)\u0000(\d+)\}$/.exec(part);
    return range ? { low: Number(range[1]), high: Number(range[2]), text: "" } : { low: 0, high: -1, text: part.replaceAll("\u0000", "..") };
  });
  return (path) => {
    const pieces = path.split(".");
    return pieces.length === parts.length && parts.every((part, i) => {
      const piece = pieces[i] as string;
      return part.high < part.low ? piece === part.text : /^\d+$/.test(piece) && Number(piece) >= part.low && Number(piece) <= part.high;
    });
  };
}
