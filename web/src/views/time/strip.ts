// Input, computing, communication and return of the step, one strip each: how much, and how much is hidden.

import { roleColour } from "../../core/colours";
import { h, pressable, svg, tipped } from "../../core/dom";
import { percent, time } from "../../core/format";
import { t } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { asTable, panel, table } from "../../core/panel";
import { type Leg, type Strip, type StripRow, columns, stripData } from "./strip_data";
import { marksOf } from "./window";

const COLUMNS = 600, HEIGHT = 22;
const COLOURS: Record<Leg, string> = {
  in: roleColour("copy"), compute: roleColour("compute"), communication: roleColour("communication"), return: roleColour("memory"), within: roleColour("reference"),
};

function legName(leg: Leg): string {
  switch (leg) {
    case "in": return t("data goes in");
    case "compute": return t("computing");
    case "communication": return t("communication");
    case "return": return t("results come back");
    case "within": return t("moves within the device");
  }
}

/** The panel; null without device work. */
export function stripPanel(page: ReportPage): HTMLElement | null {
  const strip = stripData(page.run);
  if (!strip || !page.run.timeline) return null;
  const rows = strip.rows.map((row) => stripRow(page, strip, row));
  const about = [
    t("The step as the data's way: from the host into the device, through its units, round the other devices, and back. Full colour: nothing before it in the bar below worked at the same time, so it costs time. Pale: hidden under it."),
    strip.window.steps > 1 ? t("Drawn over {n} steps; figures are for one.", { n: strip.window.steps }) : null,
  ].filter(Boolean).join(" ");
  page.selections.on((selection) => {
    const chosen = selection ? new Set(selection.events) : null;
    rows.forEach((row, i) => {
      row.classList.toggle("unlit", chosen !== null && !strip.rows[i].events.some((event) => chosen.has(event)));
      row.classList.toggle("lit", selection?.from === `phases-strip:${strip.rows[i].leg}`);
    });
  });
  return panel("phases-strip", t("In, compute, communicate, return"), about,
    h("div", { class: "tm-strip" }, rows, idleRow(strip)), wholeBar(strip), asTable(() => stripTable(strip)));
}

function stripRow(page: ReportPage, strip: Strip, row: StripRow): HTMLElement {
  const name = legName(row.leg), colour = COLOURS[row.leg];
  const marks = page.run.timeline ? marksOf(page.run.timeline, strip.rank) : [];
  const at = (ns: number) => ((ns - strip.window.start) / (strip.window.end - strip.window.start)) * COLUMNS;
  const picture = svg("svg", { viewBox: `0 0 ${COLUMNS} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    columns(row, strip.window, COLUMNS).map((c) => [
      svg("rect", { x: c.first, y: HEIGHT * (1 - c.part), width: c.last - c.first + 1, height: HEIGHT * c.part, fill: colour, "fill-opacity": 0.3 + 0.7 * c.bare })]),
    marks.slice(1).map((step) => svg("line", { x1: at(step.start_ns), x2: at(step.start_ns), y1: 0, y2: HEIGHT, class: "mark", "vector-effect": "non-scaling-stroke" })));
  const element = h("div", { class: "tm-strip-row" },
    h("span", { class: "what" }, name), h("span", { class: "lane" }, picture),
    h("b", {}, time(row.total_s)), h("span", { class: "share" }, hiddenWords(row)));
  tipped(element, name, [t("{time} a step, {share} of it", { time: time(row.total_s), share: percent(row.total_s / strip.step_s) }),
    t("{time} not hidden", { time: time(row.exposed_s) }), t("{time} beside other work", { time: time(row.total_s - row.exposed_s) })]);
  return pressable(element, () => page.selections.choose(page.model, `phases-strip:${row.leg}`, name, row.events));
}

function hiddenWords(row: StripRow): string {
  if (row.leg === "compute") return "";
  const hidden = row.total_s > 0 ? 1 - row.exposed_s / row.total_s : 0;
  return hidden > 0.001 ? t("{share} hidden", { share: percent(hidden) }) : t("not hidden");
}

function idleRow(strip: Strip): HTMLElement {
  return h("div", { class: "tm-strip-row idle" }, h("span", { class: "what" }, t("idle")), h("span", { class: "lane none" }), h("b", {}, time(strip.idle_s)), h("span", { class: "share" }, ""));
}

/** All of the step once: what is not hidden, in the order in which it counts, and idle time. */
function wholeBar(strip: Strip): HTMLElement {
  const parts = [...strip.rows.map((row) => ({ name: legName(row.leg), colour: COLOURS[row.leg], seconds: row.exposed_s, empty: false })),
    { name: t("idle"), colour: roleColour("idle"), seconds: strip.idle_s, empty: true }].filter((part) => part.seconds > 0);
  const words = parts.map((part) => `${part.name} ${percent(part.seconds / strip.step_s)}`);
  return h("div", { class: "tm-strip-whole" },
    h("div", { class: "tm-stack", role: "img", "aria-label": words.join(t(", ")) }, parts.map((part) => tipped(
      h("i", { class: part.empty ? "tm-empty" : null, style: { width: `${(part.seconds / strip.step_s) * 100}%`, "--part": part.colour } }), part.name, [time(part.seconds), percent(part.seconds / strip.step_s)]))),
    h("ul", { class: "tm-legend" }, parts.map((part, i) => h("li", {}, h("i", { class: `swatch${part.empty ? " tm-empty" : ""}`, style: { "--part": part.colour }, "aria-hidden": "true" }), words[i]))));
}

const stripTable = (strip: Strip): HTMLElement => table({
  caption: t("In, compute, communicate, return"), rows: strip.rows,
  columns: [
    { title: t("part"), cell: (row) => legName(row.leg), text: true },
    { title: t("time"), cell: (row) => time(row.total_s), sort: (row) => row.total_s },
    { title: t("of step"), cell: (row) => percent(row.total_s / strip.step_s), sort: (row) => row.total_s },
    { title: t("not hidden"), cell: (row) => time(row.exposed_s), sort: (row) => row.exposed_s },
    { title: t("beside other work"), cell: (row) => time(row.total_s - row.exposed_s), sort: (row) => row.total_s - row.exposed_s },
  ],
});
