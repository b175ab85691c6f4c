// Rows of cells; marked rows stand out.

import type { Cell, TableBlock } from "../core/document";
import { h } from "../core/dom";
import { cell } from "../core/format";
import { said } from "../core/language";
import { figure } from "./figure";

export function tableBlock(block: TableBlock): HTMLElement {
  const text = block.columns.map((_, c) => block.rows.some((row) => typeof row[c] === "string" || (typeof row[c] === "object" && row[c] !== null)));
  text[0] = true; // the first column names the rows
  const head = h("tr", {}, block.columns.map((column, c) => h("th", { scope: "col", class: text[c] ? "text" : null }, said(column.label))));
  const body = block.rows.map((row, r) => h("tr", { class: block.marked.includes(r) ? "marked" : null }, row.map((value: Cell, c) =>
    h(c === 0 ? "th" : "td", { scope: c === 0 ? "row" : null, class: text[c] ? "text" : null }, cell(value, block.columns[c]?.unit)))));
  return figure("table-block", block.title, block.note, h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": said(block.title) }, h("table", {}, h("thead", {}, head), h("tbody", {}, body))));
}
