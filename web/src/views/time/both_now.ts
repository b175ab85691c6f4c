// What two runs do where the one cursor stands: beside each other, and who is ahead.

import { h } from "../../core/dom";
import { byteRate, percent, size, time } from "../../core/format";
import { t } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { instantAt, memoryAt, readingAt } from "../../live/instant";
import { doing, placeOf, progress } from "../../live/words";
import type { Drawn } from "./beside";
import { shortName } from "./symbol";
import { typicalStep } from "./window";

/** One line for each thing that either run tells of its moment. */
export function bothNow(page: ReportPage, drawn: [Drawn, Drawn], moments: [number, number] | null): HTMLElement[] {
  if (!moments) return page.cursor ? [h("p", { class: "dim" }, t("Press a place in the picture: what both runs do there stands here. The bar at the foot of the page steps and plays."))] : [];
  const since = drawn.map(({ model }, i) => (moments[i] - (typicalStep(model.run) as [number, number])[0]) * 1e-9), told = drawn.map(({ model }, i) => tellOf(model, moments[i]));
  const rows = Object.keys(told[0]).filter((name) => told.some((one) => one[name]) && (!READINGS().includes(name) || told.every((one) => one[name])));
  const later = since[1] - since[0];
  return [
    h("table", {}, h("caption", { class: "hidden" }, t("Both runs at the cursor")),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }), drawn.map(({ name }) => h("th", { scope: "col", class: "text" }, name)))),
      h("tbody", {}, h("tr", {}, h("th", { scope: "row", class: "text" }, t("since the step's begin")), since.map((s) => h("td", { class: "text" }, time(s)))),
        rows.map((name) => h("tr", {}, h("th", { scope: "row", class: "text" }, name), told.map((one) => h("td", { class: "text" }, one[name] || t("not available"))))))),
    h("p", { class: "about" }, later === 0 ? t("Both have come here at the same time.") : later < 0 ? t("{name} is here {time} sooner.", { name: drawn[1].name, time: time(-later) }) : t("{name} is here {time} later.", { name: drawn[1].name, time: time(later) })),
  ];
}

/** What is told only where both runs tell it. */
const READINGS = (): string[] => [t("Tensor cores"), t("Device memory"), t("Memory held")];

/** What a run tells of a moment, by its name; "" where it says nothing. */
function tellOf(model: Drawn["model"], at: number): Record<string, string> {
  const { run } = model, tl = run.timeline, instant = instantAt(model, at);
  if (!tl || !instant) return {};
  const [event] = instant.running, place = event === undefined ? null : placeOf(tl, event), held = memoryAt(run, at);
  const read = (key: "tensor" | "memory") => { const series = run.use?.series.find((one) => one.key === key); return series ? readingAt(run, series, instant) : null; };
  const tensor = read("tensor"), moved = read("memory");
  return {
    [t("device")]: event === undefined ? doing({ run }, instant) : shortName(tl.names[tl.events.name[event]] ?? ""),
    [t("so far")]: event === undefined ? "" : progress(tl, event, at),
    [t("operator")]: place?.operator ?? "", [t("module")]: place?.module ?? "", [t("phase")]: place?.phase ?? "",
    [t("Tensor cores")]: tensor === null ? "" : percent(tensor), [t("Device memory")]: moved === null ? "" : byteRate(moved),
    [t("Memory held")]: held ? size(held.reduce((sum, part) => sum + part.bytes, 0)) : "",
  };
}
