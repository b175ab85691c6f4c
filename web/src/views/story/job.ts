// What the ranks of a predicted job do with a step, and the mesh that they form.

import { drawBlock } from "../../blocks";
import { h } from "../../core/dom";
import { t } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { panel } from "../../core/panel";

export function jobPanel({ run }: ReportPage): HTMLElement | null {
  if (!run.job_blocks?.length) return null;
  return panel("job", t("The job"), null, h("div", { class: "whatif" }, run.job_blocks.map(drawBlock)));
}
