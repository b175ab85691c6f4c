// The critical path in figures: what it is made of, and what shortening each part could gain.

import { HOST, OTHER, roleColour } from "../../core/colours";
import type { CriticalPath } from "../../core/document";
import { h, svg } from "../../core/dom";
import { count, time } from "../../core/format";
import { t } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { latePanel, table } from "../../core/panel";
import { causeColour } from "./causes";
import { barCell, named, ofStep, placeName, sub, swatched } from "./cells";
import { showMoment } from "./moment";
import { PATH_KINDS } from "./path_line";
import { onPathWish, pathWished, wishPath } from "./path_wish";
import { mainRank } from "./window";

const COLOURS: Record<string, string> = {
  kernel: roleColour("compute"), communication: roleColour("communication"), copy: roleColour("copy"), "host operator": HOST.operator, "host call": HOST.launch,
  python: HOST.python, "loading input": causeColour("waiting for data"), "launch latency": causeColour("launch gap"), synchronising: causeColour("host synchronising"), "handing over": causeColour("handing over"), unexplained: OTHER, "waiting by chance": causeColour("waiting by chance"),
};
const colourOf = (kind: string): string => COLOURS[kind] ?? OTHER;
const COLUMNS = 500;

/** The panel; null without device work. */
export function pathPanel(page: ReportPage): HTMLElement | null {
  const path = page.run.analysis.critical_path;
  if (!path) return null;
  return latePanel("path", t("Critical path"),
    t("The chain of work and waits that sets the step's length: shortening anything else gains nothing."), () => [light(page), band(path), kinds(page, path), shares(page, path)]);
}

function light(page: ReportPage): HTMLElement | null {
  if (!page.run.timeline || !page.run.analysis.critical_path?.segment_start_ns.length) return null;
  const button = h("button", { type: "button", class: "chip", onclick: () => { wishPath(!pathWished()); if (pathWished()) page.show("timeline"); } }, t("Light it in the timeline"));
  // Asked again when another panel changes it; lets go once this page is drawn anew.
  let drawn = false;
  onPathWish((on) => { button.setAttribute("aria-pressed", String(on)); drawn ||= button.isConnected; return !drawn || button.isConnected; });
  return h("div", { class: "tools" }, button);
}

/** Which kind of segment takes most of each of `n` equal columns of the path's window. */
export function dominant(path: CriticalPath, n: number): (string | null)[] {
  const width = (path.end_ns - path.start_ns) / n, most = new Array<number>(n).fill(0), found = new Array<string | null>(n).fill(null);
  if (!(width > 0)) return found;
  const time = Array.from({ length: n }, () => new Map<string, number>());
  path.segment_start_ns.forEach((start, s) => {
    const end = path.segment_start_ns[s + 1] ?? path.end_ns, raw = path.segment_kind[s], kind = typeof raw === "number" ? (PATH_KINDS[raw] ?? "unexplained") : raw;
    const first = Math.max(0, Math.floor((start - path.start_ns) / width)), last = Math.min(n - 1, Math.floor((end - path.start_ns) / width));
    for (let c = first; c <= last; c++) {
      const part = Math.min(end, path.start_ns + (c + 1) * width) - Math.max(start, path.start_ns + c * width);
      if (part <= 0) continue;
      const sum = (time[c].get(kind) ?? 0) + part;
      time[c].set(kind, sum);
      if (sum > most[c]) { most[c] = sum; found[c] = kind; }
    }
  });
  return found;
}

/** The path over its window, coloured by what it is on. */
function band(path: CriticalPath): HTMLElement {
  const found = dominant(path, COLUMNS), bars: SVGElement[] = [];
  for (let c = 0; c < COLUMNS;) {
    let d = c;
    while (d + 1 < COLUMNS && found[d + 1] === found[c]) d++;
    const kind = found[c];
    if (kind) bars.push(svg("rect", { x: c, y: 0, width: d - c + 1.02, height: 20, fill: colourOf(kind) }, svg("title", {}, t(kind))));
    c = d + 1;
  }
  return h("div", { class: "tm-band" },
    svg("svg", { viewBox: `0 0 ${COLUMNS} 20`, preserveAspectRatio: "none", role: "img", "aria-label": t("What the critical path is on, over the window") }, bars),
    h("p", { class: "tm-ends" }, h("span", {}, "0"), h("span", {}, t("What the critical path is on, over the window")), h("span", {}, time((path.end_ns - path.start_ns) * 1e-9))));
}

function kinds(page: ReportPage, path: CriticalPath): HTMLElement {
  const rows = Object.entries(path.time_s).map(([kind, seconds]) => ({ kind, seconds, gain: path.gain_s[kind] ?? null })).sort((a, b) => b.seconds - a.seconds);
  const most = Math.max(...rows.map((r) => r.seconds), 0), step_s = page.run.analysis.step_s;
  return table({
    caption: t("Critical path"), rows, first: 20,
    columns: [
      { title: t("part"), cell: (r) => swatched(colourOf(r.kind), t(r.kind)), sort: (r) => t(r.kind), text: true },
      { title: t("time"), cell: (r) => time(r.seconds), sort: (r) => r.seconds },
      { title: t("of step"), cell: (r) => barCell(most ? r.seconds / most : 0, colourOf(r.kind), ofStep(r.seconds, step_s)), sort: (r) => r.seconds },
      { title: t("could save at most"), cell: (r) => time(r.gain), sort: (r) => r.gain },
    ],
  });
}

function shares(page: ReportPage, path: CriticalPath): HTMLElement {
  const step_s = page.run.analysis.step_s, tl = page.run.timeline;
  type Row = CriticalPath["shares"][number];
  const name = (s: Row) => placeName(s.name, s.kind);
  return h("div", { class: "tm-below" }, sub(t("longest on the path")), table({
    caption: t("longest on the path"), rows: path.shares, first: 10, search: name,
    press: tl ? (s) => showMoment(page, "path", name(s), s.start_ns, s.longest_s, mainRank(tl)) : undefined,
    columns: [
      { title: t("what"), cell: (s) => named(name(s), s.name || name(s)), sort: name, text: true },
      { title: t("part"), cell: (s) => swatched(colourOf(s.kind), t(s.kind)), sort: (s) => t(s.kind), text: true },
      { title: t("time"), cell: (s) => time(s.time_s), sort: (s) => s.time_s },
      { title: t("of step"), cell: (s) => ofStep(s.time_s, step_s), sort: (s) => s.time_s },
      { title: t("times"), cell: (s) => count(s.count), sort: (s) => s.count },
    ],
  }));
}
