// What to change first, by what it could save; "show me" leads to where it can be seen.

import { h } from "../../core/dom";
import type { Finding } from "../../core/document";
import { percent, time } from "../../core/format";
import { currentLanguage, t } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { panel } from "../../core/panel";
import { evidenceOf } from "./evidence";

export function findingsPanel(page: ReportPage): HTMLElement | null {
  const list = page.run.analysis.findings;
  if (!list.length) return nothingFound(page);
  return panel("findings", t("What to change first"), null, h("ol", { class: "findings" }, list.map((finding) => item(page, finding))));
}

function item(page: ReportPage, f: Finding): HTMLElement {
  const zh = currentLanguage() === "zh";
  const title = (zh && f.title_zh) || f.title;
  const evidence = evidenceOf(page, f.kind);
  const show = evidence ? h("button", { type: "button", class: "show-me", "aria-label": `${t("Show me")}: ${title}`, onclick: () => {
    if (evidence.events.length) page.selections.choose(page.model, "findings", title, evidence.events, evidence.range ? { range: evidence.range } : {});
    page.show(evidence.panel);
  } }, t("Show me")) : null;
  return h("li", {}, gainOf(page, f), h("div", {}, h("strong", {}, title), h("p", {}, (zh && f.evidence_zh) || f.evidence), f.hint ? h("p", { class: "hint" }, (zh && f.hint_zh) || f.hint) : null, show));
}

function gainOf(page: ReportPage, f: Finding): HTMLElement {
  if (!f.max_gain_s) return h("div", { class: "gain" });
  return h("div", { class: "gain" }, h("b", {}, percent(f.max_gain_s / page.run.analysis.step_s)), h("span", {}, t("up to {time}", { time: time(f.max_gain_s) })));
}

function nothingFound({ run }: ReportPage): HTMLElement | null {
  const a = run.analysis;
  if (run.origin !== "measured" || !Object.keys(a.time).length || !a.step_s) return null;
  const busy = a.classes.filter((c) => !c.label.startsWith("idle")).reduce((sum, c) => sum + c.time_s, 0);
  const dark = a.classes.find((c) => c.label === "idle: unknown")?.time_s ?? 0;
  return panel("findings", t("What to change first"), null, h("p", {}, dark > a.step_s / 2
    ? t("No cause can be named: the device works {share} of the time, and for {dark} of it the recording does not tell what it waited for. Record again, with whole steps marked.", { share: percent(busy / a.step_s), dark: percent(dark / a.step_s) })
    : t("Nothing stands out. The device works {share} of the time.", { share: percent(busy / a.step_s) })));
}
