// Horizontal bars, stacked where they have several parts, on one scale with a limit across.

import type { BarsBlock } from "../core/document";
import { roleColour } from "../core/colours";
import { h, pressable, tipped } from "../core/dom";
import { cell, percent, quantity } from "../core/format";
import { said } from "../core/language";
import { legend } from "../core/panel";
import { figure } from "./figure";

/** The bars of a block; `press` gives what pressing one does, null for nothing. */
export function bars(block: BarsBlock, press: (bar: number) => (() => void) | null = () => null): HTMLElement {
  const totals = block.bars.map((bar) => bar.parts.reduce((sum, part) => sum + part.value, 0));
  const most = Math.max(...block.bars.map((bar, b) => (bar.start ?? 0) + (totals[b] as number)), block.limit ?? 0, Number.MIN_VALUE);
  const rows = block.bars.map((bar, b) => {
    const total = totals[b] as number;
    const track = h("div", { class: "bar-track" }, bar.start ? h("b", { style: { width: `${(bar.start / most) * 100}%` } }) : null, bar.parts.map((part) =>
      tipped(h("i", { style: { width: `${(part.value / most) * 100}%`, background: roleColour(part.role) } }), said(part.label), [quantity(part.value, block.unit), bar.parts.length > 1 && total > 0 ? percent(part.value / total) : null])),
      block.limit !== null ? h("span", { class: "limit", style: { left: `${(block.limit / most) * 100}%` } }) : null);
    const act = press(b), row = h("div", { class: act ? "bar-row pressable" : "bar-row" }, h("span", { class: "name" }, cell(bar.label)), track, h("span", { class: "value" }, quantity(total, block.unit)), bar.note ? h("small", {}, said(bar.note)) : null);
    return act ? pressable(row, act) : row;
  });
  return figure("bars", block.title, block.note, h("div", { class: "bar-rows" }, rows), legend(entries(block)));
}

/** The parts that occur, by name, where bars have several; and the limit. */
function entries(block: BarsBlock): { label: string; colour: string; value?: string }[] {
  const seen = new Map<string, string>();
  if (block.bars.some((bar) => bar.parts.length > 1)) for (const bar of block.bars) for (const part of bar.parts) seen.set(said(part.label), roleColour(part.role));
  const found: { label: string; colour: string; value?: string }[] = [...seen].map(([label, colour]) => ({ label, colour }));
  if (block.limit !== null) found.push({ label: block.limit_label ? said(block.limit_label) : "", colour: "var(--ink)", value: quantity(block.limit, block.unit) });
  return found;
}
