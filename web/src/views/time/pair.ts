// Two runs of the page above each other at the same scale: predicted over measured.

import { h } from "../../core/dom";
import { time } from "../../core/format";
import { t } from "../../core/language";
import { Model } from "../../core/model";
import type { ReportPage } from "../../core/page";
import { latePanel } from "../../core/panel";
import { beside } from "./beside";
import { drawable, partnerChips, partners, runName } from "./other_run";
import { typicalStep } from "./window";

const models = new Map<number, Model>();

/** The panel; null unless two runs have timelines. */
export function pairPanel(page: ReportPage): HTMLElement | null {
  const others = partners(page).filter((i) => drawable(page.report.runs[i]) && typicalStep(page.report.runs[i]));
  if (!others.length || !drawable(page.run) || !typicalStep(page.run)) return null;
  const origins = new Set([page.run.origin, ...others.map((i) => page.report.runs[i].origin)]);
  return latePanel("timeline-pair", origins.size > 1 ? t("Predicted and measured, above each other") : t("Runs above each other"),
    t("One step of each run, at the same scale, from the step's begin: what is wider takes longer. One cursor stands in both, at the same work. Choosing an event lights the same operator in both."), () => {
      const place = h("div"), draw = (other: number) => place.replaceChildren(...body(page, other).filter((part) => part !== null));
      draw(others[0]);
      return [partnerChips(page, others[0], draw), place];
    }, 320);
}

function body(page: ReportPage, other: number): (HTMLElement | null)[] {
  // The comparison's first run stands above.
  const [first, second] = page.index < other ? [page.index, other] : [other, page.index];
  const drawn = (index: number, beside: number) => {
    const model = index === page.index ? page.model : (models.get(index) ?? new Model(page.report.runs[index], index));
    models.set(index, model);
    return { model, name: runName(page, index, beside) };
  };
  const both: Parameters<typeof beside>[1] = [drawn(first, second), drawn(second, first)];
  return [beside(page, both, "timeline-pair"), profiled(both.map(({ model }) => model))];
}

/** A profiler slows the host: say by how much, where the step was also timed without it. */
function profiled(shown: Model[]): HTMLElement | null {
  const run = shown.map((model) => model.run).find((one) => one.measurement?.profiled_step_s);
  return run ? h("p", { class: "about" }, t("The measured events were recorded under a profiler, which slows the host: a step took {with} with it and {without} without.", { with: time(run.measurement.profiled_step_s), without: time(run.step_time_s) })) : null;
}
