// Draws a scene: axis, rows, counters, what is chosen, and the lanes' names.

import { css } from "../../core/dom";
import { ticks, time } from "../../core/format";
import { t } from "../../core/language";
import type { Counter } from "./lanes";
import { drawArrows, drawPath, drawSelected } from "./overlays";
import { type Bar, type Name, type Window2D, barsOf, paintBars, paintNames } from "./paint";
import type { Row } from "./rows";
import type { Scene } from "./scene";
import { AXIS, type Track } from "./tracks";
import { marksOf } from "./window";

/** The page's colours, read once a theme. */
export interface Colours { paper: string; ground: string; ink: string; soft: string; faint: string; line: string; wash: string; accent: string; font: string }

export const sceneColours = (): Colours => ({
  paper: css("--paper"), ground: css("--ground"), ink: css("--ink"), soft: css("--soft"), faint: css("--faint"), line: css("--line"),
  wash: css("--wash"), accent: css("--accent"), font: getComputedStyle(document.body).fontFamily || "sans-serif",
});

const DIM = 0.2;

/** Draw all that is visible. */
export function drawScene(c: CanvasRenderingContext2D, scene: Scene): void {
  const { width, height, colours } = scene;
  c.clearRect(0, 0, width, height);
  c.font = `11.5px ${colours.font}`;
  const shown = scene.tracks.map((track, at) => ({ track, at })).filter(({ track }) => track.y + track.height > scene.scroll && track.y < scene.scroll + height);
  c.save();
  c.beginPath();
  c.rect(scene.left, 0, width - scene.left, height);
  c.clip();
  c.translate(0, -scene.scroll);
  grounds(c, scene, shown.map(({ track }) => track));
  grid(c, scene);
  stepMarks(c, scene);
  rows(c, scene, shown);
  for (const { track } of shown) if (track.counter) drawCounter(c, scene, track, track.counter);
  if (scene.path) drawPath(c, scene, scene.path);
  drawSelected(c, scene);
  drawArrows(c, scene);
  drawRanges(c, scene);
  c.restore();
  labels(c, scene, shown.map(({ track }) => track));
  axis(c, scene);
}

/** A quiet ground under each lane, so that empty time is seen as such. */
function grounds(c: CanvasRenderingContext2D, scene: Scene, tracks: Track[]): void {
  c.fillStyle = scene.colours.ground;
  for (const track of tracks) if (track.kind === "device" || track.kind === "waits" || track.kind === "counter") c.fillRect(scene.left, track.y, scene.width - scene.left, track.height - 2);
}

function rows(c: CanvasRenderingContext2D, scene: Scene, shown: { track: Track; at: number }[]): void {
  const window: Window2D = { from: scene.view[0], to: scene.view[1], left: scene.left, right: scene.width };
  const plain: Bar[] = [], names: Name[] = [], lit: Bar[] = [], litNames: Name[] = [];
  for (const { track, at } of shown) {
    track.rows.forEach((row, r) => {
      const y = track.y + r * track.rowHeight, inside = track.rowHeight - 2;
      if (y + inside < scene.scroll || y > scene.scroll + scene.height) return;
      barsOf(row, window, y, inside, plain, scene.litRows ? null : names);
      const own = scene.litRows?.[at]?.[r];
      if (own) barsOf(own, window, y, inside, lit, litNames);
    });
  }
  paintBars(c, plain, scene.litRows ? DIM : 1);
  for (const { track } of shown) if (track.held && !scene.litRows) paintHeld(c, scene, track, track.held, window);
  paintNames(c, names);
  if (scene.litRows) { paintBars(c, lit, 1); paintNames(c, litNames); }
}

/** The part of a collective in which it waits: in the paler colour of waiting. */
function paintHeld(c: CanvasRenderingContext2D, scene: Scene, track: Track, held: Row, window: Window2D): void {
  const bars: Bar[] = [];
  barsOf(held, window, track.y, track.rows.length * track.rowHeight - 2, bars, null);
  c.fillStyle = scene.colours.paper;
  for (const bar of bars) if (bar.full === 1) c.fillRect(bar.x, bar.y, bar.width, bar.height);
  paintBars(c, bars, 1);
}

/** Moments of the axis' labels, from its zero. */
const moments = (scene: Scene): number[] =>
  ticks(scene.view[0] - scene.zero, scene.view[1] - scene.zero, Math.max(3, (scene.width - scene.left) / 110));

function grid(c: CanvasRenderingContext2D, scene: Scene): void {
  c.strokeStyle = scene.colours.line;
  c.lineWidth = 1;
  c.beginPath();
  for (const at of moments(scene)) {
    const x = Math.round(scene.x(at + scene.zero)) + 0.5;
    c.moveTo(x, scene.scroll + AXIS - 5);
    c.lineTo(x, scene.scroll + scene.height);
  }
  c.stroke();
}

/** Dashed lines at the begin and end of each marked step, over the lanes of its own rank. */
function stepMarks(c: CanvasRenderingContext2D, scene: Scene): void {
  if (scene.ends) return stepEnds(c, scene, scene.ends);
  c.strokeStyle = scene.colours.accent;
  c.fillStyle = scene.colours.accent;
  c.setLineDash([4, 3]);
  const seen = new Set<string>();
  for (const track of scene.tracks) {
    const key = `${track.source}/${track.rank}`, tl = scene.model(track.source).run.timeline;
    if (track.rank < 0 || seen.has(key) || !tl) continue;
    seen.add(key);
    const own = scene.tracks.filter((one) => one.source === track.source && one.rank === track.rank);
    const top = own[0].y, last = own[own.length - 1], bottom = last.y + last.height, offset = scene.sources[track.source].offset;
    c.beginPath();
    for (const step of marksOf(tl, track.rank)) for (const at of [step.start_ns, step.end_ns]) {
      const x = Math.round(scene.x(at - offset)) + 0.5;
      if (x < scene.left || x > scene.width) continue;
      c.moveTo(x, top); c.lineTo(x, bottom);
    }
    c.stroke();
  }
  c.setLineDash([]);
}

/** A ground under each run's one step, so that its end is seen. */
function stepEnds(c: CanvasRenderingContext2D, scene: Scene, ends: number[]): void {
  c.fillStyle = scene.colours.accent;
  ends.forEach((end, source) => {
    const own = scene.tracks.filter((one) => one.source === source), last = own[own.length - 1];
    if (!last) return;
    const a = Math.max(scene.left, scene.x(0)), b = Math.min(scene.width, scene.x(end)), top = own[0].y + own[0].height - 4, bottom = last.y + last.height + 3;
    c.globalAlpha = 0.06;
    c.fillRect(a, top, b - a, bottom - top);
    c.globalAlpha = 0.9;
    for (const x of [scene.x(0), scene.x(end)]) if (x >= scene.left && x <= scene.width) c.fillRect(Math.round(x), top, 1.5, bottom - top);
    c.globalAlpha = 1;
  });
}

function axis(c: CanvasRenderingContext2D, scene: Scene): void {
  const { colours, width, left } = scene;
  c.fillStyle = colours.paper;
  c.fillRect(0, 0, width, AXIS - 6);
  c.fillStyle = colours.soft;
  c.textAlign = "left";
  c.textBaseline = "middle";
  const span = scene.view[1] - scene.view[0];
  for (const at of moments(scene)) {
    const x = Math.round(scene.x(at + scene.zero)), text = axisTime(at, span);
    if (x >= left - 1 && x + c.measureText(text).width + 4 < width) c.fillText(text, x + 3, 10);
  }
  c.textAlign = "right";
  c.fillText(t("time"), left - 12, 10);
}

/** A lane of amounts: its area, or its layers one over the other. */
function drawCounter(c: CanvasRenderingContext2D, scene: Scene, track: Track, counter: Counter): void {
  if (!counter.layers) return drawArea(c, scene, track, counter, counter.value, counter.colour, 0.4);
  for (const layer of counter.layers) drawArea(c, scene, track, counter, layer.upTo, layer.colour, 1);
}

/** An amount that holds its value until the next reading; a column shows its largest. */
function drawArea(c: CanvasRenderingContext2D, scene: Scene, track: Track, counter: Counter, values: readonly (number | null)[], colour: string, alpha: number): void {
  const { left, width } = scene, base = track.y + track.height - 2, offset = scene.sources[track.source].offset;
  const y = (v: number) => base - (Math.min(v, counter.most) / counter.most) * (track.height - 6);
  // Nothing is said of the time before the first reading.
  let x = Math.max(left, scene.x(counter.time[0] - offset)), highest = -1;
  c.beginPath();
  c.moveTo(x, base);
  const line: [number, number][] = [];
  for (let k = Math.max(0, before(counter.time, scene.view[0] + offset)); k < counter.time.length; k++) {
    const value = values[k], at = Math.max(left, scene.x(counter.time[k] - offset));
    if (at > width) break;
    if (value === null) continue;
    if (at - x >= 1 && highest >= 0) { line.push([x, highest], [at, highest]); x = at; highest = value; } else highest = Math.max(highest, value);
    if (k + 1 < counter.time.length && scene.x(counter.time[k + 1] - offset) - at >= 1) { line.push([at, highest]); x = at; highest = value; }
  }
  if (highest >= 0) line.push([x, highest], [Math.min(width, scene.x(scene.limits[1])), highest]);
  for (const [px, value] of line) c.lineTo(px, y(value));
  c.lineTo(line.at(-1)?.[0] ?? left, base);
  c.closePath();
  c.fillStyle = colour;
  c.globalAlpha = alpha; c.fill();
  c.globalAlpha = 1;
  if (alpha < 1) { c.strokeStyle = colour; c.lineWidth = 1.2; c.stroke(); }
}

/** The last reading at or before a time; -1 for none. */
export function before(times: Float64Array, time: number): number {
  let low = 0, high = times.length;
  while (low < high) { const middle = (low + high) >> 1; if (times[middle] <= time) low = middle + 1; else high = middle; }
  return low - 1;
}

function drawRanges(c: CanvasRenderingContext2D, scene: Scene): void {
  c.fillStyle = scene.colours.accent;
  c.strokeStyle = scene.colours.accent;
  for (const range of [scene.chosen, scene.range]) {
    if (!range) continue;
    const [a, b] = [scene.x(Math.min(...range)), scene.x(Math.max(...range))];
    c.globalAlpha = 0.1; c.fillRect(a, scene.scroll, Math.max(1, b - a), scene.height);
    c.globalAlpha = 0.8; c.lineWidth = 1.5; c.strokeRect(a, scene.scroll - 2, Math.max(1, b - a), scene.height + 4);
    c.globalAlpha = 1;
  }
}

function labels(c: CanvasRenderingContext2D, scene: Scene, tracks: Track[]): void {
  const { left, colours, scroll } = scene;
  c.fillStyle = colours.paper;
  c.fillRect(0, 0, left - 1, scene.height);
  c.textBaseline = "middle";
  for (const track of tracks) {
    const y = track.y - scroll;
    c.textAlign = "right";
    c.fillStyle = colours.soft;
    if (track.kind === "heading") {
      c.font = `600 12px ${colours.font}`;
      c.fillStyle = colours.ink;
      c.textAlign = "left";
      fitted(c, track.label, 2, y + 12, scene.width - 8);
      c.font = `11.5px ${colours.font}`;
    } else if (track.counter) {
      fitted(c, track.label, left - 10, y + 12, left - 14);
      const most = track.counter.told(track.counter.most);
      fitted(c, left < 100 ? most : t("to {value}", { value: most }), left - 10, y + 28, left - 14);
    } else fitted(c, track.label, left - 10, y + Math.min(track.height, track.rowHeight * 2) / 2, left - 14);
  }
}

function fitted(c: CanvasRenderingContext2D, text: string, x: number, y: number, room: number): void {
  let shown = text;
  while (shown.length > 2 && c.measureText(shown).width > room) shown = `${shown.slice(0, -2)}…`;
  c.fillText(shown, x, y);
}

/** A moment on the axis, in the unit that suits the visible stretch. */
export function axisTime(ns: number, span: number): string {
  const [scale, unit] = ([[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]] as [number, string][]).find(([s]) => span >= s) ?? [1, "ns"];
  return `${Number((ns / scale).toFixed(span / scale < 5 ? 2 : span / scale < 50 ? 1 : 0)).toLocaleString("en-US", { maximumFractionDigits: 2 })} ${unit}`;
}

/** A length of time in words, from nanoseconds. */
export const lengthWords = (ns: number): string => time(ns * 1e-9);
