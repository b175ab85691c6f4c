// The account of the step: from its best possible time to the time that it takes; each bar leads to its events.

import { bars } from "../../blocks/bars";
import type { BarsBlock } from "../../core/document";
import { h } from "../../core/dom";
import { cell } from "../../core/format";
import { t } from "../../core/language";
import { DEVICE_KINDS } from "../../core/model";
import type { ReportPage } from "../../core/page";
import { panel } from "../../core/panel";
import { sharesOf } from "../time/account_shares";
import { mainRank } from "../time/window";
import { idleStretch } from "./evidence";

export function accountPanel(page: ReportPage): HTMLElement | null {
  const block = page.run.account_block as BarsBlock | null | undefined, keys = page.run.account_keys ?? [];
  if (!block) return null;
  return panel("account", t("What the step loses"), null, bars(block, (bar) => door(page, keys[bar], cell(block.bars[bar]?.label))),
    keys.length && page.model.count ? h("p", { class: "res-note" }, t("Press a bar: its events are chosen, and the timeline shows them.")) : null);
}

/** Terms that are told apart over ranks, not by kernel. */
const TALK = new Set(["communication", "waiting", "bubble"]);

/** What pressing a term does: choose the events that have a part in it; null where there are none. */
function door(page: ReportPage, key: string | undefined, name: string): (() => void) | null {
  const { model } = page, tl = model.run.timeline;
  if (!tl || key === undefined) return null;
  const causes = key === "idle" ? page.run.analysis.idle_spots as { cause: string }[] : [];
  if (key === "idle" && !causes.length) return null;
  return () => {
    const term = TALK.has(key) ? "communication" : key, rank = page.run.analysis.account?.rank ?? mainRank(tl);
    const found = key === "idle" ? idleStretch(page, causes.map((spot) => spot.cause))
      : { range: undefined, events: model.eventsWhere((i) => (tl.events.kind[i] as number) < DEVICE_KINDS && tl.lanes[tl.events.lane[i] as number]?.rank === rank && sharesOf(model, i).some(([own]) => own === term)) };
    page.selections.choose(model, "account", name, found.events, found.range ? { range: found.range } : {});
    page.show("timeline");
  };
}
