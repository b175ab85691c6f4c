// The account of the step: from its best possible time to the time that it takes, loss by loss.

import { drawBlock } from "../../blocks";
import { t } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { panel } from "../../core/panel";

export function accountPanel({ run }: ReportPage): HTMLElement | null {
  if (!run.account_block) return null;
  return panel("account", t("What the step loses"), null, drawBlock(run.account_block));
}
