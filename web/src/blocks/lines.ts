// Curves over a common axis, with marks, bands and the figures as a table.

import type { Axis, LinesBlock, Mark, Series } from "../core/document";
import { roleColour } from "../core/colours";
import { type Chart, type Option, axis, axisTip, chart, seriesLines } from "../core/chart";
import { css, h } from "../core/dom";
import { quantity } from "../core/format";
import { said } from "../core/language";
import { asTable } from "../core/panel";
import { figure } from "./figure";

const SPARE = ["#3b76d9", "#d98a1f", "#0f9b8e", "#c2569b", "#8b5cd6", "#8aa82f", "#d6476b", "#5a6b80"];

/** The colour of a curve: its role's, or the next of the spare ones where roles do not tell them apart. */
export function seriesColours(series: { role: string }[]): string[] {
  const once = series.every((s, i) => s.role !== "other" && series.findIndex((o) => o.role === s.role) === i);
  return series.map((s, i) => (once ? roleColour(s.role) : (SPARE[i % SPARE.length] as string)));
}

export function lines(block: LinesBlock): HTMLElement {
  let wasNarrow = false;
  const sized = (width: number) => {
    const now = isNarrow(width);
    if (now !== wasNarrow) drawn.redraw();
    wasNarrow = now;
  };
  const drawn: Chart = chart({ height: 300, label: said(block.title), sized, option: () => linesOption(block, drawn.element.clientWidth) });
  const legendItems = block.series.length > 1 ? h("ul", { class: "legend" }, block.series.map((s, i) => h("li", {}, h("i", { class: "swatch", style: { background: seriesColours(block.series)[i] as string } }), said(s.label)))) : null;
  return figure("lines", block.title, block.note, drawn.element, markList(block), legendItems, asTable(() => linesTable(block)));
}

/** Whether a chart is too narrow for the names of its marks: they get numbers, explained below it. */
export const isNarrow = (width: number): boolean => width > 0 && width < 560;

const named = (marks: Mark[]): Mark[] => marks.filter((m) => m.label.en !== "");

/** The names of the marks; shown where the chart has only their numbers. */
function markList(block: LinesBlock): HTMLElement | null {
  const marks = named(block.marks);
  const place = (m: Mark) => [m.x !== null ? quantity(m.x, block.x.unit) : "", m.y !== null ? quantity(m.y, block.y.unit) : ""].filter(Boolean).join(", ");
  return marks.length ? h("ol", { class: "mark-list" }, marks.map((m) => h("li", {}, `${said(m.label)}: `, h("b", {}, place(m))))) : null;
}

/** The chart's option; also of an explorer's chart.
 * @param width of the chart in pixels; 0 where it is not known.
 */
export function linesOption(block: Pick<LinesBlock, "x" | "y" | "series" | "marks">, width = 0): Option {
  const colours = seriesColours(block.series), narrow = isNarrow(width);
  return {
    grid: { left: 14, right: 22, top: block.marks.some((m) => m.label.en !== "") ? 52 : 32, bottom: 30, containLabel: true },
    tooltip: axisTip((points) => seriesLines(points, (value) => quantity(value, block.y.unit)), { axisPointer: { label: { formatter: (p: { value: number }) => quantity(p.value, block.x.unit) } } }),
    xAxis: valueAxis(block.x, block.series.flatMap((s) => s.x), { name: said(block.x.label), nameLocation: "middle", nameGap: 28, ...(narrow ? { splitNumber: 3 } : {}) }, narrow),
    yAxis: valueAxis(block.y, decades(block), { ...binarySteps(block), name: said(block.y.label), nameLocation: "end", nameGap: block.marks.some((m) => m.label.en !== "") ? 28 : 12, nameTextStyle: { align: "left", color: css("--soft"), padding: [0, 0, 0, -30] } }),
    series: [...block.series.flatMap((s, i) => curve(s, colours[i] as string)), markSeries(block, narrow)],
  };
}

/** The ends of a logarithmic axis: whole decades around the values and marks; nothing for a plain one. */
export function decades(block: Pick<LinesBlock, "y" | "series"> & Partial<Pick<LinesBlock, "marks">>): number[] {
  const values = [...block.series.flatMap((s) => [...s.y, ...s.low, ...s.high]), ...(block.marks ?? []).map((m) => m.y)].filter((v): v is number => v !== null && v > 0);
  if (!block.y.log || !values.length) return [];
  const low = 10 ** Math.floor(Math.log10(Math.min(...values)) + 1e-9), high = 10 ** Math.ceil(Math.log10(Math.max(...values)) - 1e-9);
  return [low, high > low ? high : low * 10];
}

/** Steps of a plain axis of memory: powers of two, that its names be round; nothing for another one. */
export function binarySteps(block: Pick<LinesBlock, "y" | "series"> & Partial<Pick<LinesBlock, "marks">>): { interval?: number; max?: number } {
  const most = Math.max(0, ...[...block.series.flatMap((s) => [...s.y, ...s.high]), ...(block.marks ?? []).map((m) => m.y)].filter((v): v is number => v !== null));
  if (block.y.unit !== "bytes" || block.y.log || most <= 0) return {};
  const interval = 2 ** Math.ceil(Math.log2(most / 6));
  return { interval, max: interval * Math.ceil(most / interval) };
}

/** Where along the axis a place is, from 0 to 1. */
function along(block: Pick<LinesBlock, "x" | "series">): (x: number) => number {
  const place = (x: number) => (block.x.log ? Math.log10(Math.max(x, 1e-300)) : x);
  const all = block.series.flatMap((s) => s.x).map(place);
  const low = Math.min(...all), span = Math.max(...all) - low || 1;
  return (x) => (place(x) - low) / span;
}

/** How high the names of vertical lines stand, so that near ones do not cover each other. */
export function tiers(marks: Mark[], block: Pick<LinesBlock, "x" | "series">): Map<Mark, number> {
  const share = along(block);
  const found = new Map<Mark, number>();
  let before = -Infinity, tier = 0;
  for (const mark of marks.filter((m) => m.x !== null).sort((a, b) => (a.x as number) - (b.x as number))) {
    const at = share(mark.x as number);
    tier = at - before < 0.22 ? (tier + 1) % 3 : 0;
    before = at;
    found.set(mark, tier);
  }
  return found;
}

/** Whether the greatest value stands so near a power within the axis that their names would cover each other. */
export function crowded(values: number[], base: number): boolean {
  if (!values.length) return false;
  const most = Math.log(Math.max(...values)) / Math.log(base), past = most - Math.floor(most + 1e-9);
  return past > 1e-6 && past < 0.3 && Math.floor(most + 1e-9) >= Math.log(Math.min(...values)) / Math.log(base);
}

function valueAxis(described: Axis, values: number[], extra: Record<string, unknown>, narrow = false): Record<string, unknown> {
  const bounds = values.length ? { min: Math.min(...values), max: Math.max(...values) } : {};
  // An end's own name would stand on that of the power before it, or of the first step after it.
  const base = described.unit === "bytes" ? 4 : 10;
  const ends = { ...(described.log && crowded(values, base) ? { showMaxLabel: false } : {}), ...(narrow && !described.log && Math.min(...values) > 0 ? { showMinLabel: false } : {}) };
  // Sizes of memory stand on powers of two.
  return axis({ type: described.log ? "log" : "value", logBase: base, ...bounds, scale: described.log, ...extra, axisLabel: { color: css("--soft"), fontSize: 11.5, hideOverlap: true, ...ends, formatter: (v: number) => quantity(v, described.unit) } });
}

function curve(s: Series, colour: string): Record<string, unknown>[] {
  const points = s.x.map((x, i) => [x, s.y[i] ?? null]);
  const common = { name: said(s.label), itemStyle: { color: colour }, lineStyle: { color: colour, width: 2 } };
  const main = s.shape === "points"
    ? { ...common, type: "scatter", symbolSize: 7, data: points.filter((p) => p[1] !== null) }
    : { ...common, type: "line", showSymbol: s.x.length <= 24, symbolSize: 4, step: s.shape === "steps" ? "end" : false, data: points };
  return s.low.length ? [...band(s, colour), main] : [main];
}

/** An interval as an area: the lower edge, and the width stacked on it. */
function band(s: Series, colour: string): Record<string, unknown>[] {
  const edge = { type: "line", stack: `band ${s.label.en}`, stackStrategy: "all", symbol: "none", lineStyle: { opacity: 0 }, silent: true, tooltip: { show: false } };
  return [{ ...edge, data: s.x.map((x, i) => [x, s.low[i]]) }, { ...edge, areaStyle: { color: colour, opacity: 0.14 }, data: s.x.map((x, i) => [x, (s.high[i] as number) - (s.low[i] as number)]) }];
}

function markSeries(block: Pick<LinesBlock, "x" | "series" | "marks">, narrow: boolean): Record<string, unknown> {
  const marks = block.marks, share = along(block), numbered = named(marks);
  // A name beside an end of the axis runs inwards, off the names of the other axis.
  const side = (mark: Mark) => (mark.x === null ? 0 : share(mark.x) < 0.12 ? -1 : share(mark.x) > 0.88 ? 1 : 0);
  const label = (mark: Mark, position: string) => ({ show: true, formatter: narrow ? String(numbered.indexOf(mark) + 1 || "") : said(mark.label), color: css("--soft"), fontSize: 11.5, position });
  const rules = marks.filter((m) => m.x === null || m.y === null);
  const points = marks.filter((m) => m.x !== null && m.y !== null);
  // Lines do not widen the axis by themselves: points without a symbol do.
  const first = block.series[0]?.x[0];
  const reach = first === undefined ? [] : rules.filter((m) => m.y !== null).map((m) => ({ value: [first, m.y], symbolSize: 0, label: { show: false } }));
  const heights = tiers(rules, block);
  const align = (mark: Mark) => (mark.x === null || side(mark) === 0 || narrow ? {} : { align: side(mark) < 0 ? "left" : "right" });
  return {
    type: "scatter", data: [...reach, ...points.map((m) => ({ value: [m.x, m.y], itemStyle: { color: roleColour(m.role), borderColor: css("--paper"), borderWidth: 2 }, label: label(m, side(m) < 0 ? "right" : side(m) > 0 ? "left" : "top") }))], symbolSize: 11, z: 5, tooltip: { show: false },
    markLine: { symbol: "none", silent: true, data: rules.map((m) => ({ ...(m.x !== null ? { xAxis: m.x } : { yAxis: m.y }), lineStyle: { color: roleColour(m.role), type: "dashed", width: 1.2 }, label: { ...label(m, m.x !== null ? "end" : "insideEndTop"), ...align(m), distance: m.x !== null ? 3 + 13 * (heights.get(m) ?? 0) : 4 } })) },
  };
}

function linesTable(block: LinesBlock): HTMLElement {
  const xs = [...new Set(block.series.flatMap((s) => s.x))].sort((a, b) => a - b);
  const at = block.series.map((s) => new Map(s.x.map((x, i) => [x, s.y[i]])));
  return h("div", { class: "scroll" }, h("table", {},
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, said(block.x.label)), block.series.map((s) => h("th", { scope: "col" }, said(s.label))))),
    h("tbody", {}, xs.map((x) => h("tr", {}, h("th", { scope: "row" }, quantity(x, block.x.unit)), at.map((m) => h("td", {}, m.has(x) ? quantity(m.get(x), block.y.unit) : "")))))));
}
