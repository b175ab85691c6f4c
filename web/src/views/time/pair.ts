// Two runs above each other at the same scale, both from the begin of their step: predicted over measured.

import { h } from "../../core/dom";
import { time } from "../../core/format";
import { operatorLabel, t } from "../../core/language";
import { Model } from "../../core/model";
import type { ReportPage } from "../../core/page";
import { latePanel } from "../../core/panel";
import { companions } from "./belongs";
import { hoverTip } from "./detail";
import { listen } from "./input";
import { minimap } from "./minimap";
import { drawable, partnerChips, partners, runName } from "./other_run";
import { type Row, firstAfter } from "./rows";
import { Scene } from "./scene";
import { timelineLegend } from "./timeline_legend";
import { type Source, type Track, tracksOf } from "./tracks";
import { mainRank, typicalStep } from "./window";

const models = new Map<number, Model>();

/** The panel; null unless two runs have timelines. */
export function pairPanel(page: ReportPage): HTMLElement | null {
  const others = partners(page).filter((i) => drawable(page.report.runs[i]) && typicalStep(page.report.runs[i]));
  if (!others.length || !drawable(page.run) || !typicalStep(page.run)) return null;
  const origins = new Set([page.run.origin, ...others.map((i) => page.report.runs[i].origin)]);
  return latePanel("timeline-pair", origins.size > 1 ? t("Predicted and measured, above each other") : t("Runs above each other"),
    t("One step of each run, at the same scale, from the step's begin: what is wider takes longer. Choosing an event lights the same operator in both."), () => {
      const place = h("div"), draw = (other: number) => place.replaceChildren(body(page, other));
      draw(others[0]);
      return [partnerChips(page, others[0], draw), place];
    }, 320);
}

function body(page: ReportPage, other: number): HTMLElement {
  // The comparison's first run stands above.
  const [first, second] = page.index < other ? [page.index, other] : [other, page.index];
  const source = (index: number): Source => {
    const model = index === page.index ? page.model : (models.get(index) ?? new Model(page.report.runs[index], index));
    models.set(index, model);
    return { model, offset: (typicalStep(model.run) as [number, number])[0] };
  };
  const sources = [source(first), source(second)], steps = sources.map(({ model, offset }) => (typicalStep(model.run) as [number, number])[1] - offset);
  const longest = Math.max(...steps), limits: [number, number] = [-0.25 * longest, 1.25 * longest];
  const scene = new Scene(sources, limits, [-0.03 * longest, 1.03 * longest], 0, t("Two runs above each other: arrow keys move, plus and minus zoom"));
  scene.setTracks(sources.flatMap((one, i) => [heading(i, `${runName(page, i ? second : first, i ? first : second)} · ${t("step")} ${time(steps[i] * 1e-9)}`), ...ofStep(one, i, limits)]));
  const own = page.index === first ? 0 : 1, map = minimap(scene);
  scene.ends = steps;
  const choose = (at: number, event: number) => {
    const model = sources[at].model;
    if (at === own) {
      const { title, events } = companions(model, event);
      return page.selections.choose(page.model, "timeline-pair", title, events.includes(event) ? events : [event], { event });
    }
    const operator = model.operatorOf[event] >= 0 ? model.operators[model.operatorOf[event]] : null;
    const events = operator ? page.model.eventsOfOperator(operator) : [];
    if (operator && events.length) page.selections.choose(page.model, "timeline-pair", operatorLabel(operator), events);
    else page.selections.clear();
  };
  listen(scene, {
    hover: (point) => hoverTip(scene, point, sources[0].offset),
    press: (x, y) => {
      const hit = scene.hit(x, y);
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
  const button = (label: string, title: string, act: () => void) => h("button", { type: "button", title, "aria-label": label.length > 1 ? null : title, onclick: act }, label);
  return h("div", {},
    h("div", { class: "tools" }, button("+", t("Zoom in"), () => scene.zoom(0.6)), button("−", t("Zoom out"), () => scene.zoom(1 / 0.6)), button("←", t("Move left"), () => scene.pan(-0.3)), button("→", t("Move right"), () => scene.pan(0.3)), button(t("Fit"), t("Show all"), () => scene.fit())),
    map.element, scene.box, timelineLegend(sources.map(({ model }) => ({ model, ranks: new Set([mainRank(model.run.timeline as NonNullable<Model["run"]["timeline"]>)]) }))), profiled(sources));
}

/** A profiler slows the host: say by how much, where the step was also timed without it. */
function profiled(sources: Source[]): HTMLElement | null {
  const run = sources.map(({ model }) => model.run).find((one) => one.measurement?.profiled_step_s);
  return run ? h("p", { class: "about" }, t("The measured events were recorded under a profiler, which slows the host: a step took {with} with it and {without} without.", { with: time(run.measurement.profiled_step_s), without: time(run.step_time_s) })) : null;
}

/** The lanes of a run's main rank, its memory left to the timeline. */
const ofStep = (source: Source, at: number, limits: [number, number]): Track[] => {
  const tl = source.model.run.timeline as NonNullable<Model["run"]["timeline"]>;
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
