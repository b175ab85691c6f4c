// What a whole script printed: times and memory in it are predictions.

import { drawBlock } from "../../blocks";
import { h } from "../../core/dom";
import { t } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { panel } from "../../core/panel";

export function printedPanel({ run }: ReportPage): HTMLElement | null {
  if (!run.printed_block) return null;
  return panel("printed", t("Output of the script"), null, h("div", { class: "whatif" }, drawBlock(run.printed_block)));
}
