// What the device's work belongs to, as lanes: its phase, and under it the modules from the outermost in.

import { BRANCHES, PHASES } from "../../core/colours";
import type { Timeline } from "../../core/document";
import { word } from "../../core/language";
import { DEVICE_KINDS, type Model } from "../../core/model";
import { type Row, type Spans, row } from "./rows";

/** Levels of modules that are drawn. */
const LEVELS = 4;

/** The spans of all levels, and which events each holds. */
export interface Nest {
  rows: Row[];
  /** In words: the phase, or the module's whole path. */
  title(span: number): string;
  /** The device events that a span joins. */
  events(span: number): number[];
}

const kept = new WeakMap<Model, Map<string, Nest | null>>();

/** The nest of a rank's device work; null where no operator is known. Made once. */
export function nestOf(model: Model, rank: number, offset: number): Nest | null {
  const known = kept.get(model) ?? new Map<string, Nest | null>(), key = `${rank}/${offset}`;
  kept.set(model, known);
  if (!known.has(key)) known.set(key, make(model, rank, offset));
  return known.get(key) ?? null;
}

/** "model.layers.0.mlp" as "model", "layers.0", "mlp": numbers belong to what they number. */
export function tokens(path: string): string[] {
  const found: string[] = [];
  for (const part of path.split(".")) {
    if (/^\d+$/.test(part) && found.length) found[found.length - 1] += `.${part}`;
    else if (part) found.push(part);
  }
  return found;
}

interface Span { start: number; end: number; key: string; label: string; title: string; colour: string; first: number; last: number }

function make(model: Model, rank: number, offset: number): Nest | null {
  const tl = model.run.timeline as Timeline, { kind, lane, op } = tl.events, { columns, modules } = tl.ops;
  const work = model.eventsWhere((i) => kind[i] < DEVICE_KINDS && op[i] >= 0 && columns.name[op[i]] !== undefined && tl.lanes[lane[i]].rank === rank)
    .sort((a, b) => model.start[a] - model.start[b]);
  const parts = modules.map(tokens), all: Span[] = [], levels: number[][] = [];
  const colours = new Map<string, string>();
  const branch = (key: string): string => {
    const found = colours.get(key) ?? BRANCHES[colours.size % BRANCHES.length];
    colours.set(key, found);
    return found;
  };
  for (let level = 0; level <= LEVELS; level++) {
    const own: number[] = [];
    let last: Span | null = null;
    work.forEach((i, at) => {
      const phase = columns.phase[op[i]], path = parts[columns.module[op[i]]] ?? [];
      const label = level === 0 ? word(phase) : path[level - 1], prefix = path.slice(0, level).join(".");
      if (!label || !phase) { last = null; return; }
      const key = `${phase}/${prefix}`;
      if (last?.key === key) { last.end = Math.max(last.end, model.end[i]); last.last = at; return; }
      last = { start: model.start[i], end: model.end[i], key, label, title: level === 0 ? label : `${prefix} · ${word(phase)}`, colour: level === 0 ? PHASES[phase] ?? PHASES.other : branch(prefix), first: at, last: at };
      own.push(all.push(last) - 1);
    });
    if (own.length) levels.push(own);
  }
  if (!all.length) return null;
  // What runs beside it on another stream may begin before it ends: in a lane it gives way.
  for (const own of levels) own.forEach((span, k) => { const next = own[k + 1]; if (next !== undefined) all[span].end = Math.min(all[span].end, Math.max(all[span].start + 1, all[next].start)); });
  const palette = [...new Set(all.map((span) => span.colour))];
  const spans: Spans = { start: Float64Array.from(all, (s) => s.start), end: Float64Array.from(all, (s) => s.end), colour: Uint8Array.from(all, (s) => palette.indexOf(s.colour)), palette, offset, label: (i) => all[i].label };
  return {
    rows: levels.map((own) => row(spans, Int32Array.from(own))), title: (i) => all[i].title,
    events: (i) => work.slice(all[i].first, all[i].last + 1).filter((event) => sameKey(tl, event, all[i].key, parts)),
  };
}

const sameKey = (tl: Timeline, event: number, key: string, parts: string[][]): boolean => {
  const { columns } = tl.ops, at = tl.events.op[event], [phase] = key.split("/", 1), prefix = key.slice(phase.length + 1);
  return columns.phase[at] === phase && `${(parts[columns.module[at]] ?? []).join(".")}.`.startsWith(prefix ? `${prefix}.` : "");
};
