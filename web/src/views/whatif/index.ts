// The view "What if": live figures whose points the models computed when the report was made.

import { drawBlock } from "../../blocks";
import { h } from "../../core/dom";
import { said, t, text } from "../../core/language";
import type { ReportPage, View } from "../../core/page";
import { latePanel, panel } from "../../core/panel";
import { type Group, groupsOf } from "./groups";

const MOST = 6;

/** One group of blocks; the first stands at once, the others when they come near. */
const place = (at: number) => (page: ReportPage): HTMLElement | null => {
  const group = groupsOf(page.report.what_if)[at];
  if (!group) return null;
  const id = at === 0 ? "whatif-first" : `whatif-${at}`, title = group.title ? said(group.title) : t("To know before");
  const body = () => h("div", { class: "whatif" }, ofRun(page, at), ...drawn(group));
  return at === 0 ? panel(id, title, null, body()) : latePanel(id, title, null, body, 420);
};

const drawn = (group: Group): HTMLElement[] => group.blocks.map(drawBlock);

/** Which run the figures are of, where the page holds several. */
function ofRun(page: ReportPage, at: number): HTMLElement | null {
  if (at !== 0 || page.report.runs.length < 2) return null;
  return h("p", { class: "res-note" }, t("These figures are of {run}.", { run: t(page.report.names[0] ?? "") }));
}

export const view: View = {
  id: "whatif",
  title: text("What if"),
  about: text("Move the sliders: every point was computed by the same models that predicted the run."),
  panels: Array.from({ length: MOST }, (_, at) => place(at)),
};
