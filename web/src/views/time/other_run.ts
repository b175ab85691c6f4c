// Which two runs are held against each other: the one that is shown, and another.

import type { Comparison, Run } from "../../core/document";
import { h } from "../../core/dom";
import { t } from "../../core/language";
import type { ReportPage } from "../../core/page";

/** Indexes of the runs that the shown one can be compared with: a comparison always has run 0 on one side. */
export const partners = (page: ReportPage): number[] =>
  page.report.runs.length < 2 ? [] : page.index === 0 ? page.report.runs.map((_, i) => i).slice(1) : [0];

/** The comparison of the shown run with another; run 0 is always its first. */
export const comparisonWith = (page: ReportPage, other: number): Comparison | undefined => page.report.comparisons[(page.index === 0 ? other : page.index) - 1];

/** What a run is called beside another: predicted or measured where that tells them apart. */
export function runName(page: ReportPage, index: number, other: number): string {
  const a = page.report.runs[index], b = page.report.runs[other];
  return a.origin !== b.origin ? `${t(a.origin)}${a.target !== b.target ? ` · ${a.target}` : ""}` : t(page.report.names[index] as string);
}

/** Chips to choose the other run; null where there is only one. */
export function partnerChips(page: ReportPage, chosen: number, choose: (other: number) => void): HTMLElement | null {
  const found = partners(page);
  if (found.length < 2) return null;
  const chips = found.map((i) => h("button", { type: "button", class: "chip", "aria-pressed": String(i === chosen), onclick: () => {
    chips.forEach((chip, k) => chip.setAttribute("aria-pressed", String(found[k] === i)));
    choose(i);
  } }, t(page.report.names[i] as string)));
  return h("div", { class: "tools", role: "group", "aria-label": t("Compare with") }, h("span", { class: "dim" }, t("Compare with")), chips);
}

/** Whether a run's timeline can be drawn. */
export const drawable = (run: Run): boolean => Boolean(run.timeline?.events.start_ns.length);
