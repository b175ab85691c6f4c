// What the timeline's colours mean.

import { h } from "../../core/dom";
import { t, word } from "../../core/language";
import type { Model } from "../../core/model";
import { legendOf } from "./tracks";

/** Colours of the device's work, the host's calls and the causes of waiting. */
export function timelineLegend(shown: { model: Model; ranks: ReadonlySet<number> }[]): HTMLElement {
  const { host, device, waits } = legendOf(shown);
  const group = (title: string, items: ReadonlyMap<string, string>, name: (label: string) => string) => (items.size
    ? h("li", {}, h("b", {}, title), [...items].map(([label, colour]) => h("span", { class: "tm-swatched" }, h("i", { style: { background: colour }, "aria-hidden": "true" }), name(label)))) : null);
  return h("ul", { class: "tl-legend" }, group(t("device"), device, word), group(t("host"), host, word), group(t("waits"), waits, (cause) => t(cause)));
}
