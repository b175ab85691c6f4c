// What has no bubble: kernels whose arithmetic is not counted, by family, against the memory's bandwidth.

import { familyColour } from "../../core/colours";
import { h, pressable } from "../../core/dom";
import type { BesideRoofline, Run } from "../../core/document";
import { byteRate, percent, time } from "../../core/format";
import { t, word } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { pointsAt } from "./roofline_data";

/** Of the step: shorter families are one line together. */
const LEAST_SHARE = 1e-3;

/** Shares of the step: in bubbles, in kernels without counted arithmetic, in kernels too short for a bubble. */
export function placed(run: Run): { bubbles: number; beside: number; short: number } {
  const step = run.analysis.step_s, roof = run.analysis.roofline, sum = (rows: readonly { time_s: number }[]) => rows.reduce((all, row) => all + row.time_s, 0) / step;
  const bubbles = sum(pointsAt(run, "memory"));
  return { bubbles, beside: sum(roof?.beside ?? []), short: Math.max(0, sum(roof?.points ?? []) - bubbles) };
}

/** The families beside the roofline, by name and share; null where there are none. */
export function besideRoofline(page: ReportPage): HTMLElement | null {
  const all = page.run.analysis.roofline?.beside ?? [], step = page.run.analysis.step_s;
  const rows = all.filter((row) => row.time_s >= LEAST_SHARE * step), few = all.filter((row) => !rows.includes(row));
  if (!rows.length) return null;
  const shares = placed(page.run);
  return h("div", { class: "res-beside" }, h("h4", {}, t("Not among the bubbles: no arithmetic is counted for these")),
    h("p", { class: "res-note" }, t("The bubbles are {bubbles} of the step, these kernels {beside}. The bar is what they reach of the device memory's bandwidth: the nearer to its end, the less is left to gain but to move fewer bytes (fuse them).", { bubbles: percent(shares.bubbles), beside: percent(shares.beside) }),
      shares.short >= 1e-3 ? ` ${t("Another {share} is too short for bubbles.", { share: percent(shares.short) })}` : ""),
    h("ul", { class: "res-bars" }, rows.map((row) => h("li", {}, pressable(h("div", { class: "res-row pressable" }, bandwidthCells(page.run, row)), () => choose(page, row.kind)))),
      few.length ? h("li", {}, h("div", { class: "res-row" }, h("span", { class: "res-what" }, few.map((row) => word(row.kind)).join(t(", "))), h("span"), h("span"), h("span", { class: "dim" }, percent(few.reduce((sum, row) => sum + row.time_s, 0) / step)))) : null));
}

function bandwidthCells({ analysis: { roofline: roof, step_s } }: Run, row: BesideRoofline): HTMLElement[] {
  const some = roof?.points.some((point) => point.kind === row.kind), name = some ? t("{family}, the rest", { family: word(row.kind) }) : word(row.kind);
  const known = row.bytes_per_s !== null && row.memory_share !== null;
  return [
    h("span", { class: "res-what" }, `${name} · ${time(row.time_s)}`),
    h("span", { class: "res-track" }, known ? h("i", { style: { width: `${Math.min(1, row.memory_share as number) * 100}%`, background: familyColour(row.kind) } }) : null),
    h("span", { class: "res-figure" }, known ? t("{rate}, {share} of memory", { rate: byteRate(row.bytes_per_s), share: percent(row.memory_share) }) : t("bandwidth not available")),
    h("span", { class: "dim" }, percent(row.time_s / step_s)),
  ];
}

function choose(page: ReportPage, kind: string): void {
  const tl = page.run.timeline;
  if (!tl) return;
  const own = tl.kernels.map((k) => k.kind === kind && !(k.flops > 0));
  page.selections.choose(page.model, "roofline", word(kind), page.model.eventsWhere((i) => Boolean(own[tl.events.kernel[i] as number])));
}
