// A report of runs: all views on one page, linked by what the reader chooses.

import { h } from "../core/dom";
import type { PageData, Report } from "../core/document";
import { t } from "../core/language";
import { Model } from "../core/model";
import type { ReportPage } from "../core/page";
import { Selections } from "../core/selection";
import { VIEWS } from "../views";
import { headline } from "../views/story/headline";
import { type Frame, frame } from "./frame";
import { selectionBar } from "./selection_bar";

const selections = new Selections();
const models = new Map<number, Model>();
let shown = 0;

/** Draw the report into the page. */
export function drawReport(place: HTMLElement, data: PageData, relanguage: () => void): void {
  const report = data.report as Report;
  const run = report.runs[shown] as Report["runs"][number];
  const model = models.get(shown) ?? new Model(run, shown);
  models.set(shown, model);
  selections.reset();
  const around = frame(place, relanguage, run.gpuscope_version);
  const page: ReportPage = {
    report, index: shown, run, model, selections,
    chooseRun(index) {
      if (index === shown) return;
      shown = index;
      selections.clear();
      drawReport(place, data, relanguage);
    },
    show(panelId) {
      const panel = document.getElementById(panelId);
      if (!panel) return;
      panel.scrollIntoView({ block: "start" });
      panel.focus({ preventScroll: true });
      hold(panel, around.main);
    },
  };
  const views = VIEWS.map((view) => {
    const panels = view.panels.map((make) => make(page)).filter((panel) => panel !== null);
    return panels.length
      ? h("section", { class: "view", id: view.id, "aria-labelledby": `${view.id}-title` },
          h("h2", { id: `${view.id}-title` }, t(view.title)), view.about ? h("p", { class: "about" }, t(view.about)) : null, panels)
      : null;
  });
  around.main.append(...[runChooser(page), headline(page), ...views].filter((part) => part !== null));
  place.append(selectionBar(page));
  const present = VIEWS.filter((_, i) => views[i]);
  around.contents(present.map((view) => ({ id: view.id, title: t(view.title) })), present[0]?.id);
  follow(around, present.map((view) => view.id));
}

const HELD_MS = 2000;

/** Keep a panel in view while those around it are drawn and grow, until the reader moves. */
export function hold(panel: HTMLElement, around: HTMLElement): void {
  if (typeof ResizeObserver === "undefined") return;
  const observer = new ResizeObserver(() => panel.scrollIntoView({ block: "start" }));
  const moves = ["wheel", "touchstart", "pointerdown", "keydown"];
  const end = () => {
    observer.disconnect();
    moves.forEach((kind) => removeEventListener(kind, end));
  };
  moves.forEach((kind) => addEventListener(kind, end, { passive: true }));
  observer.observe(around);
  setTimeout(end, HELD_MS);
}

function runChooser(page: ReportPage): HTMLElement | null {
  if (page.report.runs.length < 2) return null;
  return h("div", { class: "runs", role: "group", "aria-label": t("Runs") }, page.report.runs.map((_, i) =>
    h("button", { type: "button", class: "chip", "aria-pressed": String(i === page.index), onclick: () => page.chooseRun(i) }, page.report.names[i])));
}

/** Mark the view that is being read in the navigation. */
function follow(around: Frame, ids: string[]): void {
  if (typeof IntersectionObserver === "undefined") return;
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) around.mark(entry.target.id);
  }, { rootMargin: "-20% 0px -70% 0px" });
  for (const id of ids) {
    const view = document.getElementById(id);
    if (view) observer.observe(view);
  }
}
