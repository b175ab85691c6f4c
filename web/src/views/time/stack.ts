// A whole as one stacked bar, and its parts as rows under it: what the breakdowns are drawn with.

import { h, pressable, tipped } from "../../core/dom";
import { count, percent, time } from "../../core/format";
import { t } from "../../core/language";
import { table } from "../../core/panel";
import type { Selection } from "../../core/selection";

export interface Part {
  label: string;
  colour: string;
  seconds: number;
  /** How often; null where that says nothing. */
  count: number | null;
  /** Time in which nothing worked: hatched. */
  empty?: boolean;
  /** What it means, for the tooltip. */
  meaning?: string;
  /** Choose what belongs to it. */
  press?: () => void;
  /** Whether a selection touches it. */
  holds?: (selection: Selection) => boolean;
}

export interface Stack {
  element: HTMLElement;
  /** Light what a selection touches, dim the rest. */
  light(selection: Selection | null): void;
}

/** A stacked bar with its rows; shares are of `whole_s`. */
export function stack(title: string, parts: Part[], whole_s: number): Stack {
  const total = parts.reduce((sum, part) => sum + part.seconds, 0);
  const most = Math.max(...parts.map((part) => part.seconds));
  const pieces = parts.map((part) => {
    const piece = h("i", { class: part.empty ? "tm-empty" : null, style: { width: `${(part.seconds / total) * 100}%`, "--part": part.colour } });
    if (part.press) piece.addEventListener("click", part.press);
    return tipped(piece, part.label, facts(part, whole_s));
  });
  const rows = parts.map((part) => {
    const row = h("li", {}, h("i", { class: `swatch${part.empty ? " tm-empty" : ""}`, style: { "--part": part.colour }, "aria-hidden": "true" }), h("span", { class: "what" }, part.label),
      h("span", { class: "tm-track", "aria-hidden": "true" }, h("i", { class: part.empty ? "tm-empty" : null, style: { width: `${(part.seconds / most) * 100}%`, "--part": part.colour } })),
      h("b", {}, time(part.seconds)), h("span", { class: "share" }, percent(part.seconds / whole_s)));
    tipped(row, part.label, facts(part, whole_s));
    return part.press ? pressable(row, part.press, null) : row;
  });
  const list = h("ul", { class: "tm-parts" }, rows);
  rows.forEach((row, i) => { if (parts[i].press) row.classList.add("pressable"); });
  return {
    element: h("div", { class: "tm-breakdown" }, h("div", { class: "tm-stack", role: "img", "aria-label": `${title}: ${parts.map((p) => `${p.label} ${percent(p.seconds / whole_s)}`).join(t(", "))}` }, pieces), list),
    light(selection) {
      parts.forEach((part, i) => {
        const out = selection !== null && part.holds !== undefined && !part.holds(selection);
        pieces[i].classList.toggle("unlit", out);
        rows[i].classList.toggle("unlit", out);
      });
    },
  };
}

function facts(part: Part, whole_s: number): (string | null)[] {
  return [`${time(part.seconds)}${t(", ")}${t("{share} of the step", { share: percent(part.seconds / whole_s) })}`,
    part.count ? t("{n} launches a step", { n: count(part.count) }) : null, part.meaning ?? null];
}

/** The same as a table. */
export const stackTable = (title: string, parts: Part[], whole_s: number): HTMLElement => table({
  caption: title, rows: parts, first: 30,
  columns: [
    { title: t("part"), cell: (part) => part.label, sort: (part) => part.label, text: true },
    { title: t("time"), cell: (part) => time(part.seconds), sort: (part) => part.seconds },
    { title: t("of step"), cell: (part) => percent(part.seconds / whole_s), sort: (part) => part.seconds },
    { title: t("launches"), cell: (part) => (part.count ? count(part.count) : ""), sort: (part) => part.count },
  ],
});
