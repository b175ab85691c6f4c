// Why the device was idle: each place where it lost time, largest first.

import { h } from "../../core/dom";
import { count, time } from "../../core/format";
import { operatorLabel, t } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { latePanel, table } from "../../core/panel";
import { causeColour, causeMeaning } from "./causes";
import { barCell, named, ofStep, placeName, swatched } from "./cells";
import { showMoment } from "./moment";
import { mainRank } from "./window";

interface Spot { cause: string; what: string; within: string; where: string; time_s: number; count: number; start_ns: number; longest_s: number }

/** The panel; null where no time was lost or nothing is known of it. */
export function idlePanel(page: ReportPage): HTMLElement | null {
  const spots = (page.run.analysis.idle_spots ?? []) as Spot[], step_s = page.run.analysis.step_s, tl = page.run.timeline;
  if (!spots.length) return null;
  const most = Math.max(...spots.map((s) => s.time_s));
  const what = (s: Spot) => [placeName(s.what, s.cause), s.within ? ` ${t("in {what}", { what: operatorLabel(s.within) })}` : "", s.where ? ` · ${s.where}` : ""].join("");
  const causes = [...new Set(spots.map((s) => s.cause))];
  return latePanel("idle", t("Why the device was idle"),
    t("Each moment without device work, by what the host did meanwhile.") + (tl ? ` ${t("Press a row to see the longest such moment in the timeline.")}` : ""),
    () => [
      h("dl", { class: "tm-meanings" }, causes.map((cause) => h("div", {}, h("dt", {}, swatched(causeColour(cause), t(cause))), h("dd", {}, causeMeaning(cause))))),
      table({
        caption: t("Why the device was idle"), rows: spots, first: 10, search: (s) => `${t(s.cause)} ${what(s)}`,
        press: tl ? (s) => showMoment(page, "idle", `${t("idle")}${t(": ")}${t(s.cause)}`, s.start_ns, s.longest_s, mainRank(tl)) : undefined,
        columns: [
          { title: t("cause"), cell: (s) => swatched(causeColour(s.cause), t(s.cause)), sort: (s) => t(s.cause), text: true },
          { title: t("what the host did"), cell: (s) => named(what(s)), sort: what, text: true },
          { title: t("idle"), cell: (s) => time(s.time_s), sort: (s) => s.time_s },
          { title: t("of step"), cell: (s) => barCell(s.time_s / most, causeColour(s.cause), ofStep(s.time_s, step_s)), sort: (s) => s.time_s },
          { title: t("times"), cell: (s) => count(s.count), sort: (s) => s.count },
          { title: t("longest"), cell: (s) => time(s.longest_s), sort: (s) => s.longest_s },
        ],
      }),
    ]);
}
