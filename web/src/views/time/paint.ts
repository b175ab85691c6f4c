// Paints rows of spans: each as a bar while it is wider than a pixel, else columns as dense as they are full.

import { contrastInk } from "./ink";
import { type Row, filledUntil, firstAfter } from "./rows";

/** What is drawn: the visible stretch of time and where it lies on the canvas. */
export interface Window2D {
  /** Visible time. */
  from: number;
  to: number;
  /** Pixels in which it is drawn. */
  left: number;
  right: number;
}

/** A bar or column to paint. */
export interface Bar { x: number; y: number; width: number; height: number; colour: string; full: number }
/** A name to write on a bar. */
export interface Name { x: number; y: number; width: number; text: string; colour: string }

const LEVELS = 4;

/** The bars of a row within a window, at most about two a pixel whatever the number of its spans. */
export function barsOf(row: Row, window: Window2D, y: number, height: number, bars: Bar[], names: Name[] | null): void {
  const { spans, index } = row, { left, right } = window;
  const perNs = (right - left) / (window.to - window.from), nsPer = 1 / perNs;
  const from = window.from + spans.offset, to = window.to + spans.offset;
  let k = firstAfter(row, from), last: Bar | null = null;
  while (k < index.length) {
    const i = index[k], start = spans.start[i];
    if (start > to) break;
    const x0 = left + (start - from) * perNs, x1 = left + (spans.end[i] - from) * perNs;
    if (x1 - x0 >= 1.5) {
      const x = Math.max(left, x0), end = Math.min(right, x1), gap = x1 - x0 > 3 ? 0.6 : 0;
      bars.push({ x, y, width: Math.max(1, end - x - gap), height, colour: spans.palette[spans.colour[i]], full: 1 });
      last = null;
      if (names && end - x > 34) names.push({ x, y: y + height / 2, width: end - x, text: spans.label(i), colour: spans.palette[spans.colour[i]] });
      k++;
      continue;
    }
    // Shorter than a pixel: one column stands for all that is in it.
    const column = Math.max(left, Math.floor(x0)), t0 = from + (column - left) * nsPer, t1 = t0 + nsPer;
    const next = firstAfter(row, t1, k);
    const filled = (filledUntil(row, t1, next) - filledUntil(row, t0, firstAt(row, t0, k))) * perNs;
    const full = Math.max(1, Math.ceil(Math.min(1, filled) * LEVELS - 0.01)) / LEVELS;
    const colour = spans.palette[spans.colour[index[(k + Math.max(k, next - 1)) >> 1]]];
    if (last && last.colour === colour && last.full === full && Math.abs(last.x + last.width - column) < 0.01) last.width += 1;
    else { last = { x: column, y, width: 1, height, colour, full }; bars.push(last); }
    k = Math.max(next, k + 1);
  }
}

/** As `firstAfter`, but steps back over a span that a column before already drew. */
const firstAt = (row: Row, time: number, k: number): number => {
  let at = k;
  while (at > 0 && row.spans.end[row.index[at - 1]] > time) at--;
  return at;
};

/** Paint bars, those of one colour and density together. */
export function paintBars(c: CanvasRenderingContext2D, bars: readonly Bar[], alpha: number): void {
  const sorted = new Map<string, Bar[]>();
  for (const bar of bars) {
    const key = `${bar.colour}${bar.full}`, list = sorted.get(key);
    if (list) list.push(bar); else sorted.set(key, [bar]);
  }
  for (const list of sorted.values()) {
    c.fillStyle = list[0].colour;
    c.globalAlpha = alpha * (list[0].full < 1 ? 0.25 + 0.65 * list[0].full : 1);
    for (const { x, y, width, height } of list) c.fillRect(x, y, width, height);
  }
  c.globalAlpha = 1;
}

/** Letters of a usual kernel name, to find how wide one is. */
const LETTERS = "abcdefghijklmnopqrstuvwxyz_0123456789";

/** Write names on their bars, cut to their width. */
export function paintNames(c: CanvasRenderingContext2D, names: readonly Name[]): void {
  c.textAlign = "left";
  c.textBaseline = "middle";
  const letter = (1.04 * c.measureText(LETTERS).width) / LETTERS.length;
  for (const { x, y, width, text, colour } of names) {
    const room = Math.floor((width - 8) / letter);
    if (room < 5) continue;
    c.fillStyle = contrastInk(colour);
    c.fillText(text.length > room ? `${text.slice(0, room - 1)}…` : text, x + 4, y + 0.5);
  }
}
