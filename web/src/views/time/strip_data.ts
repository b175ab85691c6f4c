// The step's flow: data goes in, is worked on, goes round, comes back. How much of each is hidden.

import type { Run, Timeline } from "../../core/document";
import { type Cover, filled, lengthOf, minus, union } from "./intervals";
import { type Window, mainRank, windowOf } from "./window";

export type Leg = "in" | "compute" | "communication" | "return" | "within";

export interface StripRow {
  leg: Leg;
  /** Seconds a step, overlaps within the leg counted once. */
  total_s: number;
  /** Seconds a step in which no leg before it in the order of `ORDER` worked. */
  exposed_s: number;
  cover: Cover;
  exposed: Cover;
  /** Rows of the timeline's events. */
  events: number[];
}

export interface Strip { window: Window; rank: number; rows: StripRow[]; idle_s: number; step_s: number }

/** Who is counted first where several work at once: what is under computing costs nothing. */
const ORDER: Leg[] = ["compute", "communication", "in", "return", "within"];
/** In which order they are shown: the way of the data. */
export const SHOWN: Leg[] = ["in", "compute", "communication", "return", "within"];

const IN = /\bHtoD\b|HostToDevice|(host|pinned|pageable) ?-> ?device|copy[_ ]h2d|\bM2D\b/i;
const OUT = /\bDtoH\b|DeviceToHost|device ?-> ?(host|pinned|pageable)|copy[_ ]d2h|\bD2M\b/i;

/** Which leg a device event belongs to; null for what the host does. */
export function legOf(tl: Timeline, event: number): Leg | null {
  const kind = tl.kinds[tl.events.kind[event]];
  if (kind === "kernel") return "compute";
  if (kind === "communication") return "communication";
  if (kind === "memset") return "within";
  if (kind !== "memcpy") return null;
  const name = tl.names[tl.events.name[event]], lane = tl.lanes[tl.events.lane[event]].name;
  const way = (text: string): Leg | null => (IN.test(text) ? "in" : OUT.test(text) ? "return" : null);
  return way(name) ?? way(lane) ?? "within";
}

/** The legs of a run's main rank over the window of its analysis; null without device work. */
export function stripData(run: Run): Strip | null {
  const tl = run.timeline, window = windowOf(run);
  if (!tl || !window) return null;
  const rank = mainRank(tl), spans = new Map<Leg, [number, number][]>(), rows = new Map<Leg, number[]>();
  const { start_ns, duration_ns, lane } = tl.events;
  for (let i = 0; i < start_ns.length; i++) {
    const from = Math.max(start_ns[i], window.start), to = Math.min(start_ns[i] + duration_ns[i], window.end);
    if (to <= from || tl.lanes[lane[i]].rank !== rank) continue;
    const leg = legOf(tl, i);
    if (leg === null) continue;
    (spans.get(leg) ?? spans.set(leg, []).get(leg) as [number, number][]).push([from, to]);
    (rows.get(leg) ?? rows.set(leg, []).get(leg) as number[]).push(i);
  }
  if (!spans.size) return null;
  const each = 1e-9 / window.steps;
  let before: Cover = { start: [], end: [] };
  const found: StripRow[] = [];
  for (const leg of ORDER) {
    const own = spans.get(leg);
    if (!own) continue;
    const cover = union(own), exposed = minus(cover, before);
    found.push({ leg, cover, exposed, total_s: lengthOf(cover) * each, exposed_s: lengthOf(exposed) * each, events: rows.get(leg) as number[] });
    before = union([...before.start.map((s, i): [number, number] => [s, before.end[i]]), ...own]);
  }
  const length = window.end - window.start;
  found.sort((a, b) => SHOWN.indexOf(a.leg) - SHOWN.indexOf(b.leg));
  return { window, rank, rows: found, idle_s: (length - lengthOf(before)) * each, step_s: length * each };
}

/** Runs of equal columns of a leg: first and last column, part filled, part of it exposed. */
export function columns(row: StripRow, window: Window, n: number): { first: number; last: number; part: number; bare: number }[] {
  const all = filled(row.cover, window.start, window.end, n), bare = filled(row.exposed, window.start, window.end, n);
  const found: { first: number; last: number; part: number; bare: number }[] = [];
  for (let c = 0; c < n; c++) {
    if (all[c] <= 0) continue;
    const part = Math.ceil(all[c] * 4) / 4, share = Math.round((bare[c] / all[c]) * 4) / 4, last = found.at(-1);
    if (last && last.last === c - 1 && last.part === part && last.bare === share) last.last = c;
    else found.push({ first: c, last: c, part, bare: share });
  }
  return found;
}
