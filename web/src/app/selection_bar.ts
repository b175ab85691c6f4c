// The bar at the foot of the page: what is chosen, its figures, and where else it can be seen.

import { h } from "../core/dom";
import { time } from "../core/format";
import { t, text } from "../core/language";
import { DEVICE_KINDS } from "../core/model";
import type { ReportPage } from "../core/page";
import type { Selection } from "../core/selection";

/** Panels in which a selection can be looked at. */
const PLACES: [string, string][] = [["timeline", text("Time")], ["roofline", text("Roofline")], ["modules", text("Modules")], ["kernel", text("Kernel")]];

/** The bar; hidden while nothing is chosen. Escape clears the selection. */
export function selectionBar(page: ReportPage): HTMLElement {
  const bar = h("aside", { id: "selection", "aria-live": "polite", "aria-label": t("Selection"), hidden: true });
  page.selections.on((selection) => {
    bar.hidden = selection === null;
    document.documentElement.classList.toggle("has-selection", selection !== null);
    if (selection) bar.replaceChildren(...content(page, selection));
  });
  addEventListener("keydown", (e) => { if (e.key === "Escape" && bar.isConnected) page.selections.clear(); });
  return bar;
}

function content(page: ReportPage, selection: Selection): HTMLElement[] {
  const places = PLACES.filter(([id]) => document.getElementById(id));
  return [
    h("span", { class: "what" }, h("b", {}, selection.title), h("span", {}, figures(page, selection))),
    h("span", { class: "where" }, places.map(([id, name]) => h("button", { type: "button", onclick: () => page.show(id) }, t(name)))),
    h("button", { type: "button", class: "close", "aria-label": t("Clear the selection"), onclick: () => page.selections.clear() }, "×"),
  ];
}

/** Device time of what is chosen, and its share of the step. */
function figures(page: ReportPage, selection: Selection): string {
  const tl = page.run.timeline;
  if (!tl) return "";
  let device_ns = 0, launches = 0;
  for (const i of selection.events) {
    if ((tl.events.kind[i] as number) >= DEVICE_KINDS) continue;
    device_ns += tl.events.duration_ns[i] as number;
    launches += 1;
  }
  return launches ? t("{time} on the device, {n} launches", { time: time(device_ns * 1e-9), n: launches }) : t("no work on the device");
}
