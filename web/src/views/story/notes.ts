// What was assumed, and where the figures come from.

import { h } from "../../core/dom";
import { sentence, t } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { panel } from "../../core/panel";
import { isRecording } from "./headline";

const FIELDS: Record<string, string> = {
  step_time_s: "step time", device_busy_s: "device time", host_busy_s: "host time", peak_memory_bytes: "peak memory", reserved_memory_bytes: "reserved memory", energy_j: "energy",
};
const ORIGINS: Record<string, string> = {
  measured: "Read on a real device.", calibrated: "Computed with constants measured on this kind of device.", datasheet: "Computed with the vendor's figures.",
  estimated: "Computed with constants carried over from other devices.", "what-if": "Computed with figures that you changed.",
};

export function notesPanel({ run }: ReportPage): HTMLElement | null {
  const grouped = new Map<string, string[]>();
  for (const [field, origin] of Object.entries(run.origins)) grouped.set(origin, [...(grouped.get(origin) ?? []), t(FIELDS[field] ?? field)]);
  const told = (text: string) => sentence(text, run.sentences_zh);
  const lines = [...grouped].map(([origin, fields]) => h("p", {}, h("b", {}, t(origin)), t(": "), fields.join(t(", ")), t(". "), h("span", { class: "dim" }, t(ORIGINS[origin] ?? ""))));
  if (run.analysis.energy && !(isRecording(run) && run.energy_j === null)) lines.push(h("p", {}, h("b", {}, t("energy")), t(": "), told(run.analysis.energy.source)));
  if (run.analysis.utilisation) lines.push(h("p", {}, h("b", {}, "MFU"), t(": "), told(run.analysis.utilisation.definition)));
  if (!lines.length && !run.assumptions.length) return null;
  return panel("notes", t("Assumptions and origins"), null,
    run.assumptions.length ? h("ul", { class: "notes" }, run.assumptions.map((line) => h("li", {}, told(line)))) : null,
    lines.length ? [h("h4", {}, t("Where the figures come from")), h("div", { class: "origins" }, lines)] : null);
}
