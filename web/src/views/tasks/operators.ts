// Operators: their time against the best that the device could do, and what limits them.

import type { Share } from "../../core/document";
import { h } from "../../core/dom";
import { byteRate, count, flopRate, percent, ratio, time } from "../../core/format";
import { operatorLabel, t, word } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { latePanel, legend, table, type TableColumn } from "../../core/panel";
import { bar, gapBar } from "./bits";
import { litRows } from "./lit";

/** How many times longer than the best; null where the best is not known. */
const against = (o: Share): number | null => (o.best_s && o.time_s > 0 ? o.time_s / o.best_s : null);
const gap = (o: Share): number | null => (o.best_s === null || o.best_s === undefined ? null : Math.max(0, o.time_s - o.best_s));

/** The panel of operators. */
export function operatorsPanel(page: ReportPage): HTMLElement | null {
  const rows = page.run.analysis.operators;
  if (!rows.length) return null;
  return latePanel("operators", t("Operators"),
    t("What PyTorch was asked to do. The best possible time is what the device's peak arithmetic and memory rates allow (its roofline); the rest of the bar is what could be gained at most. Press a row to choose its work on the whole page."),
    () => [operatorTable(page, rows), rows.some((o) => o.best_s) ? legend([{ label: t("best possible time"), colour: "var(--good)" }, { label: t("more than that"), colour: "var(--gap)" }]) : null], 420);
}

function operatorTable(page: ReportPage, rows: readonly Share[]): HTMLElement {
  const step = page.run.analysis.step_s, most = Math.max(...rows.map((o) => o.time_s));
  const measured = rows.some((o) => o.best_s !== null && o.best_s !== undefined);
  // Over the time that its kernels run, what others hide of them included (analysis/types.py: Share).
  const rate = (o: Share, amount: number) => { const took = o.running_s ?? o.time_s; return amount > 0 && took > 0 ? amount / took : null; };
  const columns: TableColumn<Share>[] = [
    { title: t("operator"), text: true, sort: (o) => operatorLabel(o.label), cell: (o) => h("span", { class: "mono", title: o.label }, operatorLabel(o.label)) },
    { title: t("time"), sort: (o) => o.time_s, cell: (o) => time(o.time_s) },
    { title: t("of step"), sort: (o) => o.time_s, cell: (o) => (measured ? percent(o.time_s / step) : bar(o.time_s / most, "var(--accent)", percent(o.time_s / step))) },
    ...(measured ? best(most) : []),
    { title: t("launches"), sort: (o) => o.count, cell: (o) => count(o.count) },
    { title: t("limited by"), text: true, sort: (o) => o.limiter, cell: (o) => (o.limiter ? word(o.limiter) : "") },
    { title: t("arithmetic rate"), sort: (o) => rate(o, o.flops), cell: (o) => (rate(o, o.flops) === null ? "" : flopRate(rate(o, o.flops))) },
    { title: t("memory rate"), sort: (o) => rate(o, o.moved_bytes), cell: (o) => (rate(o, o.moved_bytes) === null ? "" : byteRate(rate(o, o.moved_bytes))) },
  ];
  return table({
    caption: t("Operators"), columns, rows, first: 12, search: (o) => o.label,
    press: (o) => page.selections.choose(page.model, "operators", operatorLabel(o.label), page.model.eventsOfOperator(o.label)),
    made: litRows<Share>(page, (o, selection) => selection.operators.has(o.label)),
  });
}

const best = (most: number): TableColumn<Share>[] => [
  { title: t("best and gap"), sort: gap, cell: (o) => (o.best_s ? gapBar(o.best_s, o.time_s, most) : h("span", { class: "track two" }, h("i", { class: "gap unknown", style: { width: `${(o.time_s / most) * 100}%` } }))) },
  { title: t("best possible"), sort: (o) => o.best_s ?? null, cell: (o) => (o.best_s === null || o.best_s === undefined ? "" : time(o.best_s)) },
  { title: t("× best"), sort: against, cell: (o) => (against(o) === null ? "" : (against(o) as number) > 100 ? "> 100×" : ratio(against(o))) },
];
