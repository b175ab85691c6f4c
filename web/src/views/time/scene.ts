// The timeline's state: what is shown, where it lies on the canvas, what is under a point.

import { h } from "../../core/dom";
import { onPaper, onResize } from "../../core/drawing";
import type { Model } from "../../core/model";
import { onTheme } from "../../core/theme";
import { type Colours, drawScene, sceneColours } from "./draw";
import type { PathLine } from "./path_line";
import { type Row, firstAfter, masked } from "./rows";
import { type Source, type Track, AXIS, layout } from "./tracks";

/** What is under a point of the drawing. */
export type Hit =
  | { kind: "event"; track: Track; event: number }
  /** Several things in one pixel's time. */
  | { kind: "many"; track: Track; events: number[] }
  | { kind: "wait" | "span"; track: Track; index: number }
  | { kind: "counter"; track: Track; time: number }
  | { kind: "label"; track: Track };

/** Events that are lit, as a mask over a source's events; the rest is dimmed. */
export type Lit = { source: number; mask: Uint8Array }[];

/** As much of the window as the timeline takes at most, and at least in pixels. */
const OF_WINDOW = 0.8, LEAST_TALL = 620;
/** Of a sheet of paper, beside the panel's words, in pixels. */
const SHEET = 760;

export class Scene {
  readonly canvas: HTMLCanvasElement;
  /** Holds the canvas; scrolls when there are more lanes than room. */
  readonly box: HTMLElement;
  private readonly space: HTMLElement;
  tracks: Track[] = [];
  view: [number, number];
  /** Height of all tracks, of the visible part, and width of the canvas in pixels. */
  whole = 0;
  height = 0;
  width = 0;
  colours: Colours;
  /** Rows of lit spans by track; null where nothing is lit: all in full colour. */
  litRows: (Row | null)[][] | null = null;
  selected: { source: number; event: number } | null = null;
  path: PathLine | null = null;
  /** Stretch being dragged over, in time. */
  range: [number, number] | null = null;
  /** Where the drawn step of each source ends, for runs above each other. */
  ends: number[] | null = null;
  /** Where the pointer was last, to zoom there by keys. */
  pointer: number | undefined = undefined;
  /** Whether dragging chooses a stretch. */
  choosing = false;
  /** Stretch that is chosen. */
  chosen: [number, number] | null = null;
  /** Called after each drawing: the width may be another one. */
  drawn: () => void = () => undefined;
  /** How long the last drawing took. */
  drawn_ms = 0;
  private lit: Lit | null = null;
  private pending = 0;
  private readonly watchers: (() => void)[] = [];

  /**
   * @param sources the runs that are drawn.
   * @param limits first and last moment that can be shown.
   * @param home what is shown at first, and again by `fit`.
   * @param zero the moment that the axis calls 0.
   */
  constructor(readonly sources: Source[], readonly limits: [number, number], readonly home: [number, number], readonly zero: number, label: string) {
    this.view = [...home];
    this.colours = sceneColours();
    this.canvas = h("canvas", { tabindex: "0", role: "application", "aria-label": label });
    this.space = h("div", { class: "tl-space" }, this.canvas);
    this.box = h("div", { class: "tl-box" }, this.space);
    this.box.addEventListener("scroll", () => this.request(), { passive: true });
    Object.assign(this.canvas, { timeline: this }); // to be reached from the browser's console and from tests
    onResize(this.box, () => { this.fitHeight(); this.draw(); });
    const end = onTheme(() => { if (!this.canvas.isConnected) return end(); this.colours = sceneColours(); this.request(); });
  }

  /** Show other tracks. */
  setTracks(tracks: Track[]): void {
    this.tracks = tracks;
    this.whole = layout(tracks);
    this.fitHeight();
    this.relight();
    this.request();
  }

  /** Paper does not scroll: there as much is shown as a sheet holds. */
  private fitHeight(): void {
    const paper = onPaper();
    this.height = Math.min(this.whole, paper ? SHEET : Math.max(LEAST_TALL, OF_WINDOW * innerHeight));
    this.space.style.height = `${paper ? this.height : this.whole}px`;
    this.box.style.height = `${this.height}px`;
    this.box.classList.toggle("scrolls", this.whole > this.height);
  }

  /** Light some events and dim the rest; null: all in full colour. */
  setLit(lit: Lit | null): void {
    this.lit = lit;
    this.relight();
    this.request();
  }

  private relight(): void {
    const lit = this.lit;
    this.litRows = lit === null ? null : this.tracks.map((track) => {
      const mask = track.lane >= 0 ? lit.find((one) => one.source === track.source)?.mask : undefined;
      return track.rows.map((row) => (mask ? masked(row, mask) : null));
    });
  }

  /** Call `act` whenever the visible stretch changes. */
  watch(act: () => void): void { this.watchers.push(act); }

  /** Room for the lanes' names. */
  get left(): number { return this.width < 560 ? 78 : 138; }
  get scroll(): number { return this.box.scrollTop; }
  x(time: number): number { return this.left + ((time - this.view[0]) / (this.view[1] - this.view[0])) * (this.width - this.left); }
  time(x: number): number { return this.view[0] + ((x - this.left) / (this.width - this.left)) * (this.view[1] - this.view[0]); }

  request(): void {
    this.pending ||= requestAnimationFrame(() => { this.pending = 0; this.draw(); });
  }

  draw(): void {
    const width = this.box.clientWidth;
    if (!width) return;
    const began = performance.now(), scale = devicePixelRatio || 1, { canvas, height } = this;
    this.width = width;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    const c = canvas.getContext("2d");
    if (!c) return;
    c.setTransform(scale, 0, 0, scale, 0, 0);
    drawScene(c, this);
    this.drawn_ms = performance.now() - began;
    this.drawn();
  }

  /** Zoom by a factor, keeping what is at `x` in place. */
  zoom(factor: number, x = (this.left + this.width) / 2): void {
    const at = this.time(x), span = Math.max(20, (this.view[1] - this.view[0]) * factor);
    const before = (at - this.view[0]) / (this.view[1] - this.view[0]);
    this.show(at - span * before, at + span * (1 - before));
  }

  /** Show a stretch of time, as far as there is one. */
  show(from: number, to: number): void {
    const [low, high] = this.limits, pad = (high - low) * 0.02;
    const span = Math.min(Math.max(to - from, 1), high - low + 2 * pad);
    const begin = Math.min(Math.max(from, low - pad), high + pad - span);
    this.view = [begin, begin + span];
    for (const act of this.watchers) act();
    this.request();
  }

  pan(share: number): void { const by = (this.view[1] - this.view[0]) * share; this.show(this.view[0] + by, this.view[1] + by); }
  /** Show what was shown at first; what is shown already, all that there is. */
  fit(): void { this.show(...(this.view[0] === this.home[0] && this.view[1] === this.home[1] ? this.limits : this.home)); }
  all(): void { this.show(...this.limits); }

  model(source: number): Model { return this.sources[source].model; }

  /** Begin and end of an event on the drawing's clock. */
  times(source: number, event: number): [number, number] {
    const { model, offset } = this.sources[source];
    return [model.start[event] - offset, model.end[event] - offset];
  }

  /** Where an event is drawn: top and bottom of its row; null where it is folded away or not shown. */
  place(source: number, event: number): { track: Track; row: number; top: number; bottom: number } | null {
    const { model } = this.sources[source], lane = model.run.timeline?.events.lane[event];
    const track = this.tracks.find((one) => one.source === source && one.lane === lane);
    if (!track) return null;
    const at = track.rows.findIndex((row) => {
      for (let k = firstAfter(row, model.start[event] - 0.5); k < row.index.length && model.start[row.index[k]] <= model.start[event]; k++) if (row.index[k] === event) return true;
      return false;
    });
    const top = track.y + at * track.rowHeight;
    return at < 0 ? null : { track, row: at, top, bottom: top + track.rowHeight };
  }

  /** What is under a point of the canvas, with two pixels' grace. */
  hit(x: number, yOnCanvas: number): Hit | null {
    const y = yOnCanvas + this.scroll;
    if (yOnCanvas < AXIS) return null;
    const track = this.tracks.find((one) => y >= one.y && y < one.y + one.height);
    if (!track) return null;
    if (x < this.left || track.kind === "heading") return { kind: "label", track };
    if (track.kind === "counter") return { kind: "counter", track, time: this.time(x) };
    const row = track.rows[Math.floor((y - track.y) / track.rowHeight)];
    if (!row) return null;
    const found = this.under(row, x);
    if (!found.length) return null;
    if (track.nest) return { kind: "span", track, index: longest(row, found) };
    if (track.kind === "waits") return { kind: "wait", track, index: longest(row, found) };
    return found.length === 1 ? { kind: "event", track, event: found[0] } : { kind: "many", track, events: found };
  }

  /** Spans of a row under a point: the one there, or all within its pixel. */
  private under(row: Row, x: number): number[] {
    const { start, end, offset } = row.spans, at = this.time(x) + offset, pixel = this.time(x + 1) - this.time(x);
    let k = firstAfter(row, at);
    if (k < row.index.length && start[row.index[k]] <= at && end[row.index[k]] - start[row.index[k]] > 1.5 * pixel) return [row.index[k]];
    k = firstAfter(row, at - 2 * pixel);
    const found: number[] = [];
    for (; k < row.index.length && start[row.index[k]] <= at + 2 * pixel; k++) found.push(row.index[k]);
    return found;
  }
}

/** The longest of some spans of a row. */
export function longest(row: Row, indexes: readonly number[]): number {
  const { start, end } = row.spans;
  return indexes.reduce((best, i) => (end[i] - start[i] > end[best] - start[best] ? i : best));
}
