// What to change first, by what it could save; "show me" leads to where it can be seen.

import { h } from "../../core/dom";
import type { Finding } from "../../core/document";
import { percent, ratio, time } from "../../core/format";
import { t } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { panel } from "../../core/panel";
import { evidenceOf } from "./evidence";
import { remediesOf, sourceOf } from "./remedy";

export function findingsPanel(page: ReportPage): HTMLElement | null {
  const list = page.run.analysis.findings;
  if (!list.length) return nothingFound(page);
  return panel("findings", t("What to change first"), null, h("ol", { class: "findings" }, list.map((finding, at) => item(page, finding, at))));
}

function item(page: ReportPage, f: Finding, at: number): HTMLElement {
  const title = t(f.title);
  const evidence = evidenceOf(page, f);
  const show = evidence ? h("button", { type: "button", class: "show-me", "aria-label": `${t("Show me")}: ${title}`, onclick: () => {
    if (evidence.events.length) page.selections.choose(page.model, "findings", title, evidence.events, evidence.range ? { range: evidence.range } : {});
    page.show(evidence.panel);
  } }, t("Show me")) : null;
  return h("li", {}, gainOf(page, f), h("div", {}, h("strong", {}, title), h("p", {}, t(f.evidence), restOf(page, f)), f.hint ? h("p", { class: "hint" }, t(f.hint), outcomeOf(page, f)) : null, show, sourceOf(page, f), remediesOf(page, at)));
}

/** The step with it done, where that was simulated. */
function outcomeOf(page: ReportPage, f: Finding): string {
  if (!f.predicted_step_s) return "";
  const said = " " + t("Predicted with it done: {time} a step ({times} as fast).", { time: time(f.predicted_step_s), times: ratio(page.run.analysis.step_s / f.predicted_step_s) });
  const more = f.max_gain_s !== null && page.run.analysis.step_s - f.predicted_step_s > f.max_gain_s;
  return more ? said + " " + t("Part of that is counted with other findings.") : said;
}

/** Which others have the rest of a finding's gain, by their numbers in the list. */
function restOf(page: ReportPage, f: Finding): string {
  const list = page.run.analysis.findings;
  const places = (f.rest_with ?? []).map((kind) => list.findIndex((other) => other.kind === kind && other !== f) + 1).filter((place) => place > 0);
  if (!places.length) return "";
  const numbers = places.join(t(", "));
  return " " + (f.max_gain_s ? t("The rest comes with no. {numbers}.", { numbers }) : t("Its gain comes with no. {numbers}.", { numbers }));
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
