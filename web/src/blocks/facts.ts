// Figures with their names, origins and intervals.

import type { Fact, FactsBlock } from "../core/document";
import { h } from "../core/dom";
import { cell, quantity } from "../core/format";
import { said, t, word } from "../core/language";
import { figure } from "./figure";

export const facts = (block: FactsBlock): HTMLElement =>
  figure("facts-block", block.title, null, h("dl", {}, block.rows.map((row) => [h("dt", {}, said(row.label)), h("dd", {}, h("b", {}, cell(row.value, row.unit)), interval(row), origin(row), row.note ? h("small", {}, said(row.note)) : null)])));

/** The 80 % interval of a figure, where it has one. */
function interval(row: Fact): HTMLElement | null {
  if (row.low === null || row.high === null) return null;
  return h("span", { class: "interval" }, t("80 % sure: {low} to {high}", { low: quantity(row.low, row.unit), high: quantity(row.high, row.unit) }));
}

const origin = (row: Fact): HTMLElement | null => (row.origin ? h("span", { class: `origin origin-${row.origin}` }, word(row.origin)) : null);
