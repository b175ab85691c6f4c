// What the timeline's colours mean.

import { h } from "../../core/dom";
import { t, word } from "../../core/language";
import type { Model } from "../../core/model";
import { HELD } from "./held";
import { countersOf } from "./lanes";
import { legendOf } from "./tracks";

/** Colours of the device's work, of the host's calls where they are shown, and of the causes of waiting. */
export function timelineLegend(shown: { model: Model; ranks: ReadonlySet<number> }[], { hosts = true, deep = false, lanes = false } = {}): HTMLElement {
  const { host, device, waits } = legendOf(shown, deep);
  const group = (title: string, items: ReadonlyMap<string, string>, name: (label: string) => string) => (items.size
    ? h("li", {}, h("b", {}, title), [...items].map(([label, colour]) => h("span", { class: "tm-swatched" }, h("i", { style: { background: colour }, "aria-hidden": "true" }), name(label)))) : null);
  const held = lanes ? shown.flatMap(({ model }) => countersOf(model.run)).find((counter) => counter.layers)?.layers ?? [] : [];
  return h("ul", { class: "tl-legend" }, group(t("device"), device, word), hosts ? group(t("host"), host, word) : null, group(t("waits"), waits, (cause) => (cause === HELD ? t("waiting inside a collective") : t(cause))),
    group(t("memory"), new Map(held.map((layer) => [layer.name, layer.colour])), (name) => name));
}
