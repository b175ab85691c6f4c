// The step as it is, and as a change would make it, above each other: each change was predicted as the step was.

import { h } from "../../core/dom";
import { Model } from "../../core/model";
import { ratio, time } from "../../core/format";
import { t } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { latePanel } from "../../core/panel";
import { runOf } from "../../core/then";
import { beside } from "./beside";
import { drawable } from "./other_run";
import { onRemedyWish, remedyName } from "./remedies";
import { typicalStep } from "./window";

/** The panel; null where no change was predicted. */
export function thenPanel(page: ReportPage): HTMLElement | null {
  const remedies = page.run.remedies ?? [];
  if (!remedies.length || !drawable(page.run) || !typicalStep(page.run)) return null;
  const names = remedies.map((remedy) => remedyName(remedy));
  let chosen = 0, draw: (() => void) | null = null;
  const section = latePanel("timeline-then", t("As it is, and as it would be"),
    t("One step as it is, and below it with a change made: predicted by the same models, no figure is scaled. One cursor stands in both, at the same work."), () => {
      const place = h("div"), chips = names.map((name, i) => h("button", { type: "button", class: "chip", onclick: () => wish(i) }, name));
      draw = () => {
        chips.forEach((chip, i) => chip.setAttribute("aria-pressed", String(i === chosen)));
        const remedy = remedies[chosen], then = { model: new Model(runOf(page.run, remedy), page.index), name: names[chosen] };
        const gain = t("{time} a step in place of {before}: {times} as fast.", { time: time(remedy.step_time_s), before: time(page.run.step_time_s), times: ratio(remedy.speedup ?? page.run.step_time_s / remedy.step_time_s) });
        place.replaceChildren(h("p", { class: "story" }, gain), beside(page, [{ model: page.model, name: t("as it is") }, then], "timeline-then"));
      };
      draw();
      return [h("div", { class: "tools", role: "group", "aria-label": t("Change") }, h("span", { class: "dim" }, t("Change")), chips), place];
    }, 320);
  const wish = (at: number) => { chosen = at; draw?.(); };
  let stood = false;
  onRemedyWish((at) => {
    stood ||= section.isConnected;
    if (stood && !section.isConnected) return false;
    wish(at);
    return true;
  });
  return section;
}
