// The view "Advice": what gpuscope advise found, before the run that it is about.

import { drawBlock } from "../../blocks";
import { h } from "../../core/dom";
import { said, t, text } from "../../core/language";
import type { ReportPage, View } from "../../core/page";
import { panel } from "../../core/panel";

function advicePanel({ report, index }: ReportPage): HTMLElement | null {
  const { advice } = report;
  if (!advice || index > 0) return null;
  return panel("advice-told", said(advice.title), null,
    h("ul", { class: "sentences" }, advice.summary.map((words) => h("li", {}, said(words)))),
    advice.sections.map((section) => [h("h4", {}, said(section.title)), h("div", { class: "whatif" }, section.blocks.map(drawBlock))]),
    advice.commands.length ? [h("h4", {}, t("Type this next")), h("ul", { class: "notes" }, advice.commands.map((command) => h("li", {}, h("code", { class: "command" }, command))))] : null);
}

export const view: View = { id: "advice", title: text("Advice"), about: "", panels: [advicePanel] };
