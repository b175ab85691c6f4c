// The few sentences that matter, made of the run's own figures.

import { classColour } from "../../core/colours";
import { h, tipped } from "../../core/dom";
import type { Run } from "../../core/document";
import { missing, percent, size, time } from "../../core/format";
import { classLabel, t } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { panel } from "../../core/panel";

export function sentencesPanel(page: ReportPage): HTMLElement | null {
  const told = sentences(page.run);
  if (!told.length) return null;
  return panel("story-short", t("In short"), null, strip(page.run), h("ol", { class: "sentences" }, told.map((line) => h("li", {}, line))));
}

/** Two to five sentences: the pace, what limits, the idle part, memory, what it costs. */
export function sentences(run: Run): string[] {
  const a = run.analysis, found: string[] = [];
  if (missing(run.step_time_s) || !a.classes.length || !(a.step_s > 0)) return found;
  const busy = a.classes.filter((c) => !c.label.startsWith("idle")), idle = a.classes.filter((c) => c.label.startsWith("idle"));
  const sum = (rows: { time_s: number }[]) => rows.reduce((total, row) => total + row.time_s, 0);
  const first = [...busy].sort((x, y) => y.time_s - x.time_s)[0];
  const share = sum(busy) / a.step_s;
  const waits = sum(busy.filter((c) => c.label === "communication: waiting for another rank"));
  found.push(waits > 0.05 * a.step_s ? t("A step takes {time}; the device is taken {share} of it, {waiting} of that waiting for other ranks.", { time: time(run.step_time_s), share: percent(share), waiting: time(waits) })
    : t("A step takes {time}; the device works {share} of it.", { time: time(run.step_time_s), share: percent(share) }));
  const worst = [...idle].sort((x, y) => y.time_s - x.time_s)[0];
  // What is named as the limit is the largest part, and "most" is more than half.
  const idles = worst !== undefined && worst.time_s > (first?.time_s ?? 0);
  const largest = idles ? worst : first;
  if (largest) {
    const values = { what: classLabel(largest.label), time: time(largest.time_s), share: percent(largest.time_s / a.step_s) };
    found.push(largest.time_s > 0.5 * a.step_s ? t("Most of it is {what}: {time} ({share} of the step).", values) : t("The largest part of it is {what}: {time} ({share} of the step).", values));
  }
  if (worst && worst.time_s > 0.02 * a.step_s) found.push(t("It stands idle for {time}, most of all for this reason: {cause}.", { time: time(sum(idle)), cause: t(worst.label.replace(/^idle: /, "")) }));
  const longest = a.kinds[0];
  if (longest && longest.time_s > 0) found.push(t("The largest kernel family is {family} with {share} of the device's time.", { family: t(longest.label.replaceAll("_", " ")), share: percent(longest.time_s / Math.max(sum(a.kinds), 1e-12)) }));
  const m = a.memory;
  if (m?.capacity_bytes) found.push(m.fits === false ? t("Memory does not suffice: the peak of {peak} is more than {capacity}.", { peak: size(m.peak_bytes), capacity: size(m.capacity_bytes) })
    : t("At its peak it holds {peak}; {free} stay free.", { peak: size(m.peak_bytes), free: size(m.capacity_bytes - Math.max(m.peak_bytes, m.reserved_bytes ?? 0)) }));
  return found;
}

/** The step as one bar. */
function strip(run: Run): HTMLElement {
  const rows = run.analysis.classes.filter((c) => c.time_s > 0), total = rows.reduce((sum, row) => sum + row.time_s, 0);
  return h("div", { class: "stack", role: "img", "aria-label": t("The step by class") }, rows.map((row, i) =>
    tipped(h("i", { style: { width: `${(row.time_s / total) * 100}%`, background: classColour(row.label, i) } }), classLabel(row.label), [time(row.time_s), percent(row.time_s / total)])));
}
