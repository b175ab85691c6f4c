// What was assumed, and where the figures come from.

import { h } from "../../core/dom";
import { t, text } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { panel } from "../../core/panel";
import { isRecording } from "./headline";

const FIELDS: Record<string, string> = {
  step_time_s: text("step time"), device_busy_s: text("device time"), host_busy_s: text("host time"), peak_memory_bytes: text("peak memory"), reserved_memory_bytes: text("reserved memory"), energy_j: text("energy"),
};
const ORIGINS: Record<string, string> = {
  measured: text("Read on a real device."), calibrated: text("Computed with constants measured on this kind of device."), datasheet: text("Computed with the vendor's figures."), "secondary source": text("Computed with figures that others report of it."),
  estimated: text("Computed with constants carried over from other devices."), "what-if": text("Computed with figures that you changed."),
};

export function notesPanel({ run }: ReportPage): HTMLElement | null {
  const grouped = new Map<string, string[]>();
  for (const [field, origin] of Object.entries(run.origins)) grouped.set(origin, [...(grouped.get(origin) ?? []), t(FIELDS[field] ?? field)]);
  const lines = [...grouped].map(([origin, fields]) => h("p", {}, h("b", {}, t(origin)), t(": "), fields.join(t(", ")), t(". "), h("span", { class: "dim" }, t(ORIGINS[origin] ?? ""))));
  if (run.analysis.energy && !(isRecording(run) && run.energy_j === null)) lines.push(h("p", {}, h("b", {}, t("energy")), t(": "), t(run.analysis.energy.source)));
  if (run.analysis.utilisation) lines.push(h("p", {}, h("b", {}, "MFU"), t(": "), t(run.analysis.utilisation.definition)));
  if (!lines.length && !run.assumptions.length) return null;
  return panel("notes", t("Assumptions and origins"), null,
    run.assumptions.length ? h("ul", { class: "notes" }, run.assumptions.map((line) => h("li", {}, t(line)))) : null,
    lines.length ? [h("h4", {}, t("Where the figures come from")), h("div", { class: "origins" }, lines)] : null);
}
