// What the timeline shows, from top to bottom: host and device lanes of each rank, its waits, counters.

import { HOST, classColour, familyColour } from "../../core/colours";
import type { IdleGaps, Timeline } from "../../core/document";
import { t } from "../../core/language";
import { DEVICE_KINDS, type Model } from "../../core/model";
import { familyOf } from "./belongs";
import { causeColour } from "./causes";
import { HELD, heldRow } from "./held";
import { BUBBLE, bubblesOf, lossesOf } from "./losses";
import { type Counter, countersOf } from "./lanes";
import { type Nest, nestOf } from "./nest";
import { type Row, type Spans, packed, row } from "./rows";
import { shortName } from "./symbol";

export interface Track {
  kind: "heading" | "nest" | "host" | "device" | "waits" | "counter";
  /** Which of the drawing's runs it is of. */
  source: number;
  label: string;
  rank: number;
  /** Index of its lane; -1 where it is none. */
  lane: number;
  rows: Row[];
  rowHeight: number;
  /** Levels of calls that are not shown. */
  folded: number;
  /** For waits: what they are of. */
  gaps?: IdleGaps;
  counter?: Counter;
  /** For lanes of phases and modules: what its spans are. */
  nest?: Nest;
  /** Waiting inside collectives, painted over them. */
  held?: Row;
  /** Set by `layout`. */
  y: number;
  height: number;
}

/** A run as it is drawn: its model, and what is taken from its times. */
export interface Source { model: Model; offset: number }

export interface TrackOptions {
  /** Ranks to show. */
  ranks: ReadonlySet<number>;
  /** Show all levels of a host thread's calls, Python's frames too; else the outer ones of operators. */
  deep: boolean;
  /** Show the host's lanes. */
  hosts: boolean;
  /** Draw lanes of phases and modules, of the units' use, memory and counters too. */
  lanes: boolean;
  /** Ranks that are folded to one thin line. */
  folded?: ReadonlySet<number>;
}

/** Levels of calls that are shown where not all are. */
const LEVELS = 7;
const HOST_ROW = 16, DEVICE_ROW = 24, WAIT_ROW = 12, NEST_ROW = 17, FOLDED_ROW = 8, COUNTER_ROW = 44, HEADING = 22, GAP = 8;
export const AXIS = 26;

/** All tracks of a run. */
export function tracksOf(source: Source, number: number, options: TrackOptions): Track[] {
  const { model } = source, tl = model.run.timeline;
  if (!tl) return [];
  const lanes = lanesOf(source, options.deep), several = new Set(tl.lanes.map((lane) => lane.rank)).size > 1;
  const tracks: Track[] = [];
  const add = (track: Partial<Track> & Pick<Track, "kind" | "label" | "rank">) => tracks.push({ source: number, lane: -1, rows: [], rowHeight: 0, folded: 0, y: 0, height: 0, ...track });
  for (const rank of [...options.ranks].sort((a, b) => a - b)) {
    const own = tl.lanes.map((lane, index) => ({ lane, index })).filter(({ lane, index }) => lane.rank === rank && lanes[index].length);
    if (!own.length) continue;
    const folded = options.folded?.has(rank) ?? false;
    if (several) add({ kind: "heading", label: `${folded ? "▸" : "▾"} ${[t("rank {rank}", { rank }), ...lossesOf(model, rank)].join(" · ")}`, rank });
    const held = (index: number) => heldRow(model, index, source.offset) ?? undefined;
    const gaps = model.run.idle_gaps?.find((found) => found.rank === rank), bubble = bubblesOf(model.run, rank);
    const idle = (rowHeight: number) => {
      if (bubble) add({ kind: "waits", label: folded ? "" : t("bubble"), rank, rows: [waitsRow(bubble, source.offset)], rowHeight, gaps: bubble });
      if (gaps?.start_ns.length) add({ kind: "waits", label: folded ? "" : t("waits"), rank, rows: [waitsRow(gaps, source.offset)], rowHeight, gaps });
    };
    if (folded) {
      for (const { lane, index } of own) if (lane.kind !== "host") add({ kind: "device", label: "", rank, lane: index, rows: lanes[index], held: held(index), rowHeight: FOLDED_ROW });
      idle(FOLDED_ROW);
      continue;
    }
    const nest = options.lanes ? nestOf(model, rank, source.offset) : null;
    if (nest) add({ kind: "nest", label: t("phase, modules"), rank, rows: nest.rows, rowHeight: NEST_ROW, nest });
    for (const host of [true, false]) for (const { lane, index } of own) {
      if ((lane.kind === "host") !== host || (host && !options.hosts)) continue;
      const rows = host && !options.deep ? lanes[index].slice(0, LEVELS) : lanes[index];
      add({ kind: host ? "host" : "device", label: laneLabel(lane.name), rank, lane: index, rows, held: host ? undefined : held(index), rowHeight: host ? HOST_ROW : DEVICE_ROW, folded: lanes[index].length - rows.length });
    }
    idle(WAIT_ROW);
  }
  if (options.lanes) for (const counter of countersOf(model.run)) add({ kind: "counter", label: counter.name, rank: -1, counter });
  return tracks;
}

/** Give each track its place; returns the height of all. */
export function layout(tracks: Track[]): number {
  let y = AXIS;
  for (const track of tracks) {
    track.y = y;
    track.height = track.kind === "heading" ? HEADING : track.kind === "counter" ? COUNTER_ROW : track.rows.length * track.rowHeight;
    y += track.height + (track.kind === "heading" ? 0 : GAP);
  }
  return y;
}

const kept = new WeakMap<Model, Map<string, Row[][]>>();

/** The rows of each lane of a run, with or without Python's frames; made once. */
export function lanesOf({ model, offset }: Source, frames: boolean): Row[][] {
  const known = kept.get(model) ?? new Map<string, Row[][]>(), key = `${offset}/${frames}`;
  kept.set(model, known);
  let lanes = known.get(key);
  if (!lanes) {
    lanes = packLanes(model, offset, frames);
    known.set(key, lanes);
  }
  return lanes;
}

/** Kinds of events that are not drawn: marks of steps, and Python's frames unless they are asked for. */
const hiddenKinds = (tl: Timeline, frames: boolean): Set<number> => new Set(["step", ...(frames ? [] : ["python", "module"])].map((name) => tl.kinds.indexOf(name)));

function packLanes(model: Model, offset: number, frames: boolean): Row[][] {
  const tl = model.run.timeline as Timeline, { lane, kind } = tl.events;
  const left = hiddenKinds(tl, frames);
  const of: number[][] = tl.lanes.map(() => []);
  for (let i = 0; i < model.count; i++) {
    // What a recording writes over the device's lanes repeats names of the host.
    if (!left.has(kind[i]) && (frames || kind[i] < DEVICE_KINDS || tl.lanes[lane[i]].kind === "host")) of[lane[i]].push(i);
  }
  const spans = eventSpans(model, offset), { start, end } = model;
  return of.map((events) => packed(spans, events.sort((a, b) => start[a] - start[b] || end[b] - end[a])));
}

/** Whether a run has call levels that are folded away unless asked for. */
export function hasDepth(model: Model): boolean {
  const tl = model.run.timeline;
  if (!tl) return false;
  return tl.events.kind.some((k) => tl.kinds[k] === "python" || tl.kinds[k] === "module") || lanesOf({ model, offset: 0 }, true).some((rows, lane) => tl.lanes[lane].kind === "host" && rows.length > LEVELS);
}

/** A run's events as spans: device work in the colour of its family, the host's calls in that of their kind. */
export function eventSpans(model: Model, offset: number): Spans {
  const tl = model.run.timeline as Timeline, { kind, name, kernel } = tl.events;
  const palette: string[] = [], number = new Map<string, number>();
  const code = (colour: string): number => {
    const found = number.get(colour) ?? palette.push(colour) - 1;
    number.set(colour, found);
    return found;
  };
  const ofKernel = tl.kernels.map((k) => code(familyColour(k.kind)));
  const ofKind = tl.kinds.map((k, i) => code(i < DEVICE_KINDS ? familyColour(k) : (HOST[k] ?? HOST.other)));
  const colour = Uint8Array.from({ length: model.count }, (_, i) => (kernel[i] >= 0 ? ofKernel[kernel[i]] : ofKind[kind[i]]));
  return { start: model.start, end: model.end, colour, palette, offset, label: (i) => shortName(tl.names[name[i]]) };
}

function waitsRow(gaps: IdleGaps, offset: number): Row {
  const start = Float64Array.from(gaps.start_ns), end = start.map((s, i) => s + gaps.duration_ns[i]);
  const spans: Spans = { start, end, colour: Uint8Array.from(gaps.cause), palette: gaps.causes.map(causeColour), offset, label: () => "" };
  return row(spans, Int32Array.from(start.keys()));
}

const laneLabel = (name: string): string => {
  if (t(name) !== name) return t(name);
  const [first, ...rest] = name.split(" ");
  // "host thread 849 (python3)" is the process's own name beside the thread's number: enough.
  const thread = /^thread (\d+) \((.+)\)$/.exec(rest.join(" "));
  return thread ? `${t(first)} ${thread[1]} ${thread[2]}` : [t(first), ...rest].join(" ");
};

type Named = Map<string, string>;

/** Colours and names of what the tracks of some runs hold, for the legend. */
export function legendOf(shown: { model: Model; ranks: ReadonlySet<number> }[], deep: boolean): { host: Named; device: Named; waits: Named } {
  const host: Named = new Map(), device: Named = new Map(), waits: Named = new Map();
  for (const { model, ranks } of shown) {
    const tl = model.run.timeline as Timeline, { kind, lane } = tl.events, left = hiddenKinds(tl, deep);
    for (let i = 0; i < model.count; i++) {
      const place = tl.lanes[lane[i]];
      if (left.has(kind[i]) || !ranks.has(place.rank)) continue;
      if (kind[i] >= DEVICE_KINDS) { if (place.kind === "host") host.set(tl.kinds[kind[i]], HOST[tl.kinds[kind[i]]] ?? HOST.other); continue; }
      const name = familyOf(tl, i);
      device.set(name, familyColour(name));
    }
    if (model.run.collective_waits?.start_ns.length) waits.set(HELD, classColour(HELD));
    if (model.run.pipeline) waits.set(BUBBLE, causeColour(BUBBLE));
    for (const gaps of model.run.idle_gaps ?? []) {
      if (ranks.has(gaps.rank)) for (const cause of new Set(gaps.cause)) waits.set(gaps.causes[cause], causeColour(gaps.causes[cause]));
    }
  }
  return { host, device, waits };
}
