// A report of runs: all views on one page, linked by what the reader chooses.

import { h } from "../core/dom";
import type { PageData, Report } from "../core/document";
import { t } from "../core/language";
import { Cursor } from "../core/cursor";
import { Model } from "../core/model";
import type { ReportPage } from "../core/page";
import { Selections } from "../core/selection";
import { VIEWS } from "../views";
import { headline } from "../views/story/headline";
import { limitsOf } from "../views/time/limits";
import { deviceRanks } from "../views/time/window";
import { frame } from "./frame";
import { selectionBar } from "./selection_bar";
import { playBar } from "./play_bar";
import { goTo } from "./travel";

/** Views whose tables are of one rank where there are several. */
const OF_A_RANK = new Set(["story", "time", "resources", "tasks"]);

const selections = new Selections();
const models = new Map<number, Model>();
const moments = new Map<number, Cursor>();
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
    report, index: shown, run, model, selections, cursor: cursorOf(model),
    chooseRun(index) {
      if (index === shown) return;
      shown = index;
      selections.clear();
      drawReport(place, data, relanguage);
    },
    show(panelId) {
      const panel = document.getElementById(panelId);
      if (!panel) return;
      goTo(panel, around.main);
      panel.focus({ preventScroll: true });
    },
  };
  // What runs is said at the top of the first view, so that going there shows it.
  const top = [runChooser(page), headline(page)];
  const views = VIEWS.map((view, i) => {
    const panels = view.panels.map((make) => make(page)).filter((panel) => panel !== null);
    if (!panels.length && i > 0) return null;
    return h("section", { class: "view", id: view.id, "aria-labelledby": `${view.id}-title` },
      i === 0 ? top : null, h("h2", { id: `${view.id}-title` }, t(view.title)), view.about ? h("p", { class: "about" }, t(view.about)) : null,
      run.whose && OF_A_RANK.has(view.id) ? h("p", { class: "about" }, t(run.whose)) : null, panels);
  });
  around.main.append(...views.filter((part) => part !== null));
  const play = playBar(page);
  if (play) place.append(play);
  document.documentElement.classList.toggle("has-play", play !== null);
  place.append(selectionBar(page));
  const present = VIEWS.filter((_, i) => views[i]);
  around.contents(present.map((view) => ({ id: view.id, title: t(view.title) })));
}

/** The play head over a run's timeline, where the device works in it; it stands where it was in the other language. */
function cursorOf(model: Model): Cursor | null {
  const tl = model.run.timeline;
  if (!tl || !deviceRanks(tl).length) return null;
  const { begin, high } = limitsOf(model), next = new Cursor(begin, high);
  next.set(moments.get(model.index)?.at ?? null);
  moments.get(model.index)?.end();
  moments.set(model.index, next);
  return next;
}

function runChooser(page: ReportPage): HTMLElement | null {
  if (page.report.runs.length < 2) return null;
  return h("div", { class: "runs", role: "group", "aria-label": t("Runs") }, page.report.runs.map((_, i) =>
    h("button", { type: "button", class: "chip", "aria-pressed": String(i === page.index), onclick: () => page.chooseRun(i) }, t(page.report.names[i] as string))));
}
