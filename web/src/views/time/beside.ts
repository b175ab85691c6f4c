// Two runs above each other on one axis, from the begin of their step, under one cursor.

import type { Run } from "../../core/document";
import { h } from "../../core/dom";
import { time } from "../../core/format";
import { operatorLabel, t } from "../../core/language";
import type { Model } from "../../core/model";
import type { ReportPage } from "../../core/page";
import { type Alignment, align, carried } from "./align";
import { companions } from "./belongs";
import { bothNow } from "./both_now";
import { hoverTip } from "./detail";
import { listen } from "./input";
import { minimap } from "./minimap";
import { type Row, firstAfter } from "./rows";
import { Scene } from "./scene";
import { timelineLegend } from "./timeline_legend";
import { type Source, type Track, tracksOf } from "./tracks";
import { mainRank, typicalStep } from "./window";

/** A run as it is named in the picture. */
export interface Drawn { model: Model; name: string }

/** Moments of both runs, each on its own clock; null: none is looked at. */
type Moments = [number, number] | null;

/** The picture, its tools, and what both runs do at the cursor; `own` is the one that the page shows. */
export function beside(page: ReportPage, drawn: [Drawn, Drawn], panel: string): HTMLElement {
  const sources = drawn.map(({ model }): Source => ({ model, offset: (typicalStep(model.run) as [number, number])[0] })) as [Source, Source];
  const own = drawn[0].model === page.model ? 0 : 1;
  const scene = sceneOf(sources, drawn.map(({ name }) => name)), map = minimap(scene);
  const alignment = align(drawn[0].model, drawn[1].model) as Alignment;
  let byWork = true;
  /** Both moments, of a moment of one of them. */
  const both = (source: number, at: number): [number, number] => {
    const [a, b] = byWork ? [alignment.a, alignment.b] : sources.map(({ offset }) => [offset]);
    return source === 0 ? [at, carried(a, b, at)] : [carried(b, a, at), at];
  };
  const moments = (): Moments => (page.cursor && page.cursor.at !== null ? both(own, page.cursor.at) : null);
  const look = (source: number, at: number) => page.cursor?.set(both(source, at)[own]);
  const stage = withLines(scene, page, moments, look), now = h("div", { class: "both-now" });
  const tell = () => { const at = moments(); now.replaceChildren(...bothNow(page, drawn, at)); };
  page.cursor?.onSeen(now, tell);
  tell();
  const way = h("button", { type: "button", class: "chip", "aria-pressed": "true", title: t("The cursor stands at the same work in both, else at the same time since the step's begin"), onclick: () => {
    byWork = !byWork;
    way.setAttribute("aria-pressed", String(byWork));
    stage.place();
    tell();
  } }, t("Cursor by operator"));
  react(page, scene, sources, own, panel, look);
  const button = (label: string, title: string, act: () => void) => h("button", { type: "button", title, "aria-label": label.length > 1 ? null : title, onclick: act }, label);
  const ranks = sources.map(({ model }) => ({ model, ranks: new Set([mainRank(model.run.timeline as NonNullable<Run["timeline"]>)]) }));
  const element = h("div", { class: "beside" },
    h("div", { class: "tools" }, button("+", t("Zoom in"), () => scene.zoom(0.6)), button("−", t("Zoom out"), () => scene.zoom(1 / 0.6)), button("←", t("Move left"), () => scene.pan(-0.3)), button("→", t("Move right"), () => scene.pan(0.3)), button(t("Fit"), t("Show all"), () => scene.fit()), page.cursor ? way : null),
    map.element, stage.element, now, timelineLegend(ranks));
  Object.assign(element, { moments }); // to be reached from tests
  return element;
}

function sceneOf(sources: Source[], names: string[]): Scene {
  const steps = sources.map(({ model, offset }) => (typicalStep(model.run) as [number, number])[1] - offset);
  const longest = Math.max(...steps), limits: [number, number] = [-0.25 * longest, 1.25 * longest];
  const scene = new Scene(sources, limits, [-0.03 * longest, 1.03 * longest], 0, t("Two runs above each other: arrow keys move, plus and minus zoom"));
  scene.setTracks(sources.flatMap((one, i) => [heading(i, `${names[i]} · ${t("step")} ${time(steps[i] * 1e-9)}`), ...ofStep(one, i, limits)]));
  scene.ends = steps;
  return scene;
}

/** Pointer and keys, and what is lit: events that are chosen, in the other run those of the same operators. */
function react(page: ReportPage, scene: Scene, sources: Source[], own: number, panel: string, look: (source: number, at: number) => void): void {
  const choose = (at: number, event: number) => {
    const { model } = sources[at];
    if (at === own) {
      const { title, events } = companions(model, event);
      return page.selections.choose(page.model, panel, title, events.includes(event) ? events : [event], { event });
    }
    const operator = model.operatorOf[event] >= 0 ? model.operators[model.operatorOf[event]] : null;
    const events = operator ? page.model.eventsOfOperator(operator) : [];
    if (operator && events.length) page.selections.choose(page.model, panel, operatorLabel(operator), events);
    else page.selections.clear();
  };
  listen(scene, {
    hover: (point) => hoverTip(scene, point, sources[0].offset),
    press: (x, y) => {
      const hit = scene.hit(x, y), at = sourceAt(scene, y + scene.scroll);
      if (x > scene.left) look(at, scene.time(x) + sources[at].offset);
      if (hit?.kind === "event") choose(hit.track.source, hit.event);
      else if (hit?.kind === "many") choose(hit.track.source, hit.events[0]);
      else page.selections.clear();
    },
    choose: (from, to) => scene.show(from, to), step: () => undefined, enter: () => undefined,
  });
  page.selections.on((selection) => {
    scene.selected = selection?.event !== null && selection?.event !== undefined ? { source: own, event: selection.event } : null;
    scene.setLit(selection && sources.map(({ model }, at) => ({ source: at, mask: at === own ? maskOf(model.count, selection.events) : sameOperators(model, selection.operators) })));
  });
}

/** Top and bottom of a run's lanes in the whole drawing. */
function spanOf(scene: Scene, source: number): [number, number] {
  const own = scene.tracks.filter((track) => track.source === source), last = own.at(-1);
  return own[0] && last ? [own[0].y, last.y + last.height] : [0, 0];
}

const sourceAt = (scene: Scene, y: number): number => (y >= spanOf(scene, 1)[0] ? 1 : 0);

/** The scene with a line over each run; both are the one cursor, and either can be dragged. */
function withLines(scene: Scene, page: ReportPage, moments: () => Moments, look: (source: number, at: number) => void): { element: HTMLElement; place: () => void } {
  const lines = [0, 1].map(() => h("div", { class: "tl-cursor", "aria-hidden": "true" }, h("i"))), element = h("div", { class: "tl-stage" }, scene.box, lines);
  const place = () => {
    const at = moments();
    lines.forEach((line, source) => {
      const [top, bottom] = spanOf(scene, source), x = at ? scene.x(at[source] - scene.sources[source].offset) : -1;
      line.hidden = !at || x < scene.left || x > scene.width;
      line.style.transform = `translateX(${x}px)`;
      line.style.top = `${Math.max(0, top - scene.scroll)}px`;
      line.style.bottom = `${Math.max(0, scene.height - (bottom - scene.scroll))}px`;
    });
  };
  page.cursor?.onWhile(element, place);
  scene.watch(place);
  scene.drawn = place;
  lines.forEach((line, source) => {
    line.addEventListener("pointerdown", (e) => { e.preventDefault(); line.setPointerCapture(e.pointerId); });
    line.addEventListener("pointermove", (e) => { if (line.hasPointerCapture(e.pointerId)) look(source, scene.time(e.clientX - element.getBoundingClientRect().left) + scene.sources[source].offset); });
  });
  return { element, place };
}

/** The lanes of a run's main rank, its memory left to the timeline. */
const ofStep = (source: Source, at: number, limits: [number, number]): Track[] => {
  const tl = source.model.run.timeline as NonNullable<Run["timeline"]>;
  return tracksOf(source, at, { ranks: new Set([mainRank(tl)]), deep: false, hosts: true, lanes: false }).filter((track) => track.kind !== "heading" && track.rows.some((row) => touches(row, limits)));
};

/** Whether anything of a row lies within limits of the drawing. */
function touches(row: Row, [from, to]: [number, number]): boolean {
  const k = firstAfter(row, from + row.spans.offset);
  return k < row.index.length && row.spans.start[row.index[k]] < to + row.spans.offset;
}

const heading = (source: number, label: string): Track => ({ kind: "heading", source, label, rank: -1, lane: -1, rows: [], rowHeight: 0, folded: 0, y: 0, height: 0 });

function maskOf(count: number, events: readonly number[]): Uint8Array {
  const mask = new Uint8Array(count);
  for (const i of events) mask[i] = 1;
  return mask;
}

/** Events of operators by name: kernels of two runs are not equal, their operators are. */
export function sameOperators(model: Model, names: ReadonlySet<string>): Uint8Array {
  const wanted = model.operators.map((name) => names.has(name)), mask = new Uint8Array(model.count);
  for (let i = 0; i < model.count; i++) if (model.operatorOf[i] >= 0 && wanted[model.operatorOf[i]]) mask[i] = 1;
  return mask;
}
