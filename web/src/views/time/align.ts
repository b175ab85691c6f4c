// Which moment of one run is which of another: the same work, not the same time.

import { DEVICE_KINDS, type Model } from "../../core/model";
import { mainRank, typicalStep } from "./window";

/** Moments of two runs that belong together, falling in neither; between them time runs evenly. */
export interface Alignment {
  a: number[];
  b: number[];
  /** Part of the first run's device time that is work of both. */
  shared: number;
}

/** What makes work of two runs the same, the most telling first: its operator, module and phase; some of them. */
const SAME: ((name: string, module: string, phase: string) => string)[] = [
  (name, module, phase) => `${name}|${module}|${phase}`, (name, _, phase) => `${name}|${phase}`, (name) => name, (_, module, phase) => (module ? `${module}|${phase}` : ""),
];
/** A way is good enough from this part of the time on; else the best of all. */
const ENOUGH = 0.5;

interface Work { start: number; end: number; key: string }

/** Device work of a run's typical step on its main rank, in time order. */
function workOf(model: Model, same: (typeof SAME)[number]): Work[] {
  const tl = model.run.timeline, step = typicalStep(model.run);
  if (!tl || !step) return [];
  const rank = mainRank(tl), { kind, lane, op } = tl.events, { name, module, phase } = tl.ops.columns;
  const key = (o: number) => (o < 0 || name[o] === undefined ? "" : same(tl.ops.names[name[o]] ?? "", tl.ops.modules[module[o]] ?? "", phase[o] ?? ""));
  return model.eventsWhere((i) => kind[i] < DEVICE_KINDS && tl.lanes[lane[i]].rank === rank && model.start[i] >= step[0] && model.start[i] < step[1])
    .sort((x, y) => model.start[x] - model.start[y]).map((i) => ({ start: model.start[i], end: model.end[i], key: key(op[i]) }));
}

/** Pairs of the first, second, ... work of a key in both, as many as rise in both (the longest rising run, by patience sorting). */
function pairs(a: Work[], b: Work[]): [Work, Work][] {
  const places = new Map<string, number[]>();
  b.forEach((work, j) => { if (work.key) places.set(work.key, [...(places.get(work.key) ?? []), j]); });
  const seen = new Map<string, number>(), met: [number, number][] = [];
  a.forEach((work, i) => {
    const k = seen.get(work.key) ?? 0, j = work.key ? places.get(work.key)?.[k] : undefined;
    seen.set(work.key, k + 1);
    if (j !== undefined) met.push([i, j]);
  });
  const piles: number[] = [], before = new Int32Array(met.length).fill(-1);
  met.forEach(([, j], at) => {
    let low = 0, high = piles.length;
    while (low < high) { const middle = (low + high) >> 1; if (met[piles[middle]][1] < j) low = middle + 1; else high = middle; }
    before[at] = low ? piles[low - 1] : -1;
    piles[low] = at;
  });
  const rising: [Work, Work][] = [];
  for (let at = piles.at(-1) ?? -1; at >= 0; at = before[at]) rising.push([a[met[at][0]], b[met[at][1]]]);
  return rising.reverse();
}

/** How two runs' typical steps lie on each other; null where one has none. */
export function align(a: Model, b: Model): Alignment | null {
  const steps = [typicalStep(a.run), typicalStep(b.run)];
  if (!steps[0] || !steps[1]) return null;
  const [[a0, a1], [b0, b1]] = steps as [[number, number], [number, number]];
  let best: Alignment = { a: [a0, a1], b: [b0, b1], shared: 0 };
  for (const same of SAME) {
    const own = workOf(a, same), found = pairs(own, workOf(b, same)), all = own.reduce((sum, work) => sum + work.end - work.start, 0);
    const shared = all > 0 ? found.reduce((sum, [work]) => sum + work.end - work.start, 0) / all : 0;
    if (shared > best.shared) best = { ...knots(found, [a0, a1], [b0, b1]), shared };
    if (best.shared >= ENOUGH) break;
  }
  return best;
}

/** Begins and ends of pairs between the steps' own, as far as neither goes back. */
function knots(found: [Work, Work][], [a0, a1]: [number, number], [b0, b1]: [number, number]): { a: number[]; b: number[] } {
  const a = [a0], b = [b0];
  const add = (x: number, y: number) => { if (x >= (a.at(-1) as number) && y >= (b.at(-1) as number)) { a.push(x); b.push(y); } };
  for (const [x, y] of found) { add(x.start, y.start); add(x.end, y.end); }
  add(Math.max(a1, (a.at(-1) as number) + 1), Math.max(b1, (b.at(-1) as number) + 1));
  return { a, b };
}

/** A moment carried over by knots; before the first and after the last by as much. */
export function carried(from: readonly number[], to: readonly number[], at: number): number {
  let low = 0, high = from.length;
  while (low < high) { const middle = (low + high) >> 1; if (from[middle] <= at) low = middle + 1; else high = middle; }
  if (low === 0) return to[0] + at - from[0];
  if (low === from.length) return to[low - 1] + at - from[low - 1];
  const share = (at - from[low - 1]) / (from[low] - from[low - 1]);
  return to[low - 1] + share * (to[low] - to[low - 1]);
}
