// How far a recording can be trusted, before anything is concluded from it.

import { h } from "../../core/dom";
import { t } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { panel } from "../../core/panel";

interface Remark { severity: string; sentence: string; rank: number | null }

export function trustPanel({ run }: ReportPage): HTMLElement | null {
  const trust = run.analysis.trust as { remarks: Remark[]; can_conclude: Record<string, boolean> } | null;
  if (!trust || !trust.remarks.length) return null;
  const closed = Object.entries(trust.can_conclude).filter(([, can]) => !can).map(([question]) => t(question));
  const several = new Set(trust.remarks.map((r) => r.rank).filter((rank) => rank !== null)).size > 1;
  const told = (r: Remark) => (several && r.rank !== null ? t("rank {rank}", { rank: r.rank }) + t(": ") : "") + t(r.sentence);
  return panel("trust", t("How far this recording can be trusted"), null,
    h("ul", { class: "remarks" }, trust.remarks.map((r) => h("li", { class: r.severity }, told(r)))),
    closed.length ? h("p", { class: trust.remarks.some((r) => r.severity === "cannot") ? "alarm" : "about" }, t("Cannot be answered: {words}.", { words: closed.join(t(", ")) })) : null);
}
