// Where two runs differ: rows that add up to the difference, as bars to the left (less) and right (more).

import { roleColour } from "../../core/colours";
import type { Comparison, ComparisonRow } from "../../core/document";
import { h, tipped } from "../../core/dom";
import { count, percent, ratio, time } from "../../core/format";
import { classLabel, operatorLabel, t, word } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { latePanel, table } from "../../core/panel";
import { deviceEvents, familyOf, phaseOf } from "./belongs";
import { named } from "./cells";
import { comparisonWith, partnerChips, partners } from "./other_run";
import { mainRank } from "./window";

type By = "operators" | "kinds" | "classes" | "phases" | "modules";
type Row = ComparisonRow;

/** The panel; null with a single run. */
export function comparisonPanel(page: ReportPage): HTMLElement | null {
  const others = partners(page).filter((i) => comparisonWith(page, i));
  if (!others.length) return null;
  return latePanel("comparison", t("Where they differ"), t("Each row is a part of the step; the rows add up to the whole difference. Bars to the right: the second run takes longer. Press a row to choose its events."), () => {
    const place = h("div"), draw = (other: number) => place.replaceChildren(...body(page, comparisonWith(page, other) as Comparison));
    draw(others[0]);
    return [partnerChips(page, others[0], draw), place];
  });
}

function body(page: ReportPage, c: Comparison): HTMLElement[] {
  const titles: Record<By, string> = { operators: t("operators"), kinds: t("kernel families"), classes: t("time classes"), phases: t("phases"), modules: t("modules") };
  const place = h("div"), chips = new Map<By, HTMLElement>();
  const choose = (by: By) => {
    chips.forEach((chip, key) => chip.setAttribute("aria-pressed", String(key === by)));
    place.replaceChildren(rowsTable(page, c, by));
  };
  for (const by of Object.keys(titles) as By[]) if (c[by].length) chips.set(by, h("button", { type: "button", class: "chip", onclick: () => choose(by) }, titles[by]));
  choose("operators");
  return [
    h("p", { class: "story" }, t(String(c.summary))),
    ends(c),
    h("div", { class: "tools", role: "group", "aria-label": t("Compare by") }, h("span", { class: "dim" }, t("Compare by")), [...chips.values()]), place,
  ];
}

/** Both steps as two bars at the same scale. */
function ends(c: Comparison): HTMLElement {
  const most = Math.max(c.a_s, c.b_s);
  const bar = (name: string, s: number, colour: string) => [h("span", {}, name), h("span", { class: "tm-end" }, h("i", { style: { width: `${(s / most) * 100}%`, background: colour } })), h("b", {}, time(s))];
  return h("div", { class: "tm-both" }, bar(t(c.a), c.a_s, roleColour("reference")), bar(t(c.b), c.b_s, roleColour("compute")),
    h("span", { class: "dim" }, t("difference")), h("span", {}), h("b", {}, `${signed(c.difference_s)}${c.speedup ? ` (${ratio(c.b_s / c.a_s)})` : ""}`));
}

const signed = (s: number): string => (s === 0 ? "0 s" : (s < 0 ? "−" : "+") + time(Math.abs(s)));

function rowsTable(page: ReportPage, c: Comparison, by: By): HTMLElement {
  const rows = [...(c[by] as Row[])].sort((a, b) => Math.abs(b.difference_s) - Math.abs(a.difference_s)), most = Math.max(...rows.map((r) => Math.abs(r.difference_s)), 1e-30);
  const elements: [HTMLElement, Row][] = [];
  const label = (row: Row) => labelOf(by, row.label), reason = (row: Row) => t(row.reason);
  const made = table({
    caption: t("Where they differ"), rows, first: 14, search: label,
    press: page.run.timeline ? (row) => choose(page, by, row) : undefined, made: (element, row) => elements.push([element, row]),
    columns: [
      { title: t("part"), cell: (row) => named(label(row)), sort: label, text: true },
      { title: t(c.a), cell: (row) => time(row.a_s), sort: (row) => row.a_s },
      { title: t(c.b), cell: (row) => time(row.b_s), sort: (row) => row.b_s },
      { title: t("difference"), cell: (row) => [diverging(row.difference_s / most, `${label(row)}: ${signed(row.difference_s)} (${percent(row.difference_s / c.a_s)})`), h("span", { class: "after" }, signed(row.difference_s))], sort: (row) => row.difference_s },
      { title: t("launches"), cell: (row) => (row.a_count || row.b_count ? `${count(row.a_count)} → ${count(row.b_count)}` : ""), sort: (row) => row.b_count },
      { title: t("why"), cell: (row) => reason(row), sort: reason, text: true },
    ],
  });
  page.selections.on((selection) => elements.forEach(([element, row]) => element.classList.toggle("lit", by === "operators" && Boolean(selection?.operators.has(row.label)))));
  return made;
}

/** A bar from the middle: left is less, right is more. */
function diverging(share: number, words: string): HTMLElement {
  const width = Math.min(50, Math.abs(share) * 50);
  return tipped(h("span", { class: "tm-diverging", role: "img", "aria-label": words }, h("i", { style: { left: share < 0 ? `${50 - width}%` : "50%", width: `${width}%`, background: roleColour(share < 0 ? "compute" : "launch") } })), words, []);
}

function labelOf(by: By, label: string): string {
  if (by === "classes") return classLabel(label);
  if (by === "operators") return label === "idle" ? t("idle") : operatorLabel(label);
  if (by === "modules") return label === "idle" ? t("idle") : label || t("model");
  return label ? word(label) : t("not recorded");
}

function choose(page: ReportPage, by: By, row: Row): void {
  const tl = page.run.timeline, rank = tl ? mainRank(tl) : null, { model } = page;
  const of: Record<By, () => number[]> = {
    operators: () => model.eventsOfOperator(row.label), modules: () => model.eventsOfModule(row.label), classes: () => [],
    kinds: () => deviceEvents(model, rank, (line, i) => familyOf(line, i) === row.label), phases: () => deviceEvents(model, rank, (line, i) => phaseOf(line, i) === row.label),
  };
  const events = of[by]();
  if (events.length) page.selections.choose(model, "comparison", labelOf(by, row.label), events);
  else if (row.label.startsWith("idle")) page.show("idle");
}
