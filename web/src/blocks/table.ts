// Rows of cells; marked rows stand out.

import type { Cell, TableBlock } from "../core/document";
import { h } from "../core/dom";
import { cell } from "../core/format";
import { said } from "../core/language";
import { figure } from "./figure";

/** Texts longer than this take several lines, so that a row stays within the page. */
const LONG = 56;

export function tableBlock(block: TableBlock): HTMLElement {
  const text = block.columns.map((_, c) => block.rows.some((row) => typeof row[c] === "string" || (typeof row[c] === "object" && row[c] !== null)));
  text[0] = true; // the first column names the rows
  const kind = (value: Cell, c: number) => !text[c] ? null : isLong(value) ? "text long" : "text";
  const head = h("tr", {}, block.columns.map((column, c) => h("th", { scope: "col", class: text[c] ? "text" : null }, said(column.label))));
  const body = block.rows.map((row, r) => h("tr", { class: block.marked.includes(r) ? "marked" : null }, row.map((value: Cell, c) =>
    h(c === 0 ? "th" : "td", { scope: c === 0 ? "row" : null, class: kind(value, c) }, cell(value, block.columns[c]?.unit)))));
  return figure("table-block", block.title, block.note, h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": said(block.title) }, h("table", {}, h("thead", {}, head), h("tbody", {}, body))));
}

function isLong(value: Cell): boolean {
  const words = typeof value === "string" ? value : typeof value === "object" && value !== null ? value.en : "";
  return words.length > LONG;
}
