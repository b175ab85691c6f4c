// Axes, slopes, roofs and their labels, and the diamonds of the whole step.

import { roleColour } from "../../core/colours";
import { svg, tipped } from "../../core/dom";
import { byteRate, digits, flopRate, percent, size } from "../../core/format";
import { t } from "../../core/language";
import type { Level, Slope, Whole } from "./roofline_data";
import { type Box, overlaps, type Scales, slope, tilt } from "./roofline_layout";

const COLOURS: Record<Slope["key"], string> = { l2: roleColour("l2"), memory: roleColour("memory"), link: roleColour("communication"), host: roleColour("copy") };

/** Pixels of a piece of a tilted label. */
const PIECE = 14;

const shortRate = (value: number): string => {
  const [scale, prefix] = ([[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]] as const).find(([s]) => value >= s) ?? [1, ""];
  return `${Math.round(value / scale)} ${prefix}`.trim();
};

/** Grid lines, decades and names of the axes. */
export function axes(s: Scales, width: number): SVGElement[] {
  const lines: SVGElement[] = [], dense = width >= 480;
  for (let e = Math.ceil(s.x0); e <= s.x1; e++) {
    lines.push(svg("line", { class: "grid", x1: s.x(10 ** e), x2: s.x(10 ** e), y1: s.top, y2: s.bottom }));
    lines.push(svg("text", { x: s.x(10 ** e), y: s.bottom + 17, "text-anchor": "middle" }, e >= 0 ? (10 ** e).toLocaleString("en-US") : String(10 ** e)));
  }
  for (let e = Math.ceil(s.y0); e <= s.y1; e++) {
    lines.push(svg("line", { class: "grid", x1: s.left, x2: s.right, y1: s.y(10 ** e), y2: s.y(10 ** e) }));
    lines.push(svg("text", { x: s.left - 7, y: s.y(10 ** e) + 4, "text-anchor": "end" }, shortRate(10 ** e)));
  }
  lines.push(svg("text", { x: (s.left + s.right) / 2, y: s.bottom + 37, "text-anchor": "middle" }, dense ? t("arithmetic intensity, FLOP per byte") : t("FLOP per byte")),
    svg("text", { x: s.left, y: s.top - 6 }, "FLOP/s"));
  return lines;
}

/** The slopes of the levels and the flat roofs, with labels that do not cover each other. */
export function roofLines(s: Scales, slopes: Slope[], roofs: { flops_per_s: number; dtypes: string[] }[], level: Level, width: number): { lines: SVGElement[]; labels: SVGElement[]; boxes: Box[] } {
  const lines: SVGElement[] = [], labels: { boxes: Box[]; element: SVGElement }[] = [];
  const highest = roofs[0]?.flops_per_s ?? Infinity, main = slopes.find((each) => each.key === level);
  for (const each of [...slopes].sort((a, b) => Number(b.key === level) - Number(a.key === level))) {
    const found = slope(s, each.bandwidth, highest);
    if (!found) continue;
    const isMain = each.key === level;
    lines.push(svg("line", { ...found, class: isMain ? "roof" : "roof faint", stroke: COLOURS[each.key], style: { stroke: COLOURS[each.key] } }));
    labels.push(slopeLabel(found, each, isMain, width));
  }
  for (const roof of roofs) {
    const start = main ? Math.max(10 ** s.x0, roof.flops_per_s / main.bandwidth) : 10 ** s.x0;
    if (Math.log10(roof.flops_per_s) < s.y0 || s.x(start) > s.right) continue;
    const y = s.y(roof.flops_per_s), text = `${roof.dtypes.join(", ")} ${flopRate(roof.flops_per_s)}`;
    lines.push(svg("line", { class: "roof", x1: s.x(start), x2: s.right, y1: y, y2: y }));
    labels.push({ boxes: [{ x: s.right - text.length * 6.6, y: y - 19, width: text.length * 6.6, height: 15 }], element: svg("text", { class: "halo strong", x: s.right, y: y - 6, "text-anchor": "end" }, text) });
  }
  const taken: Box[] = [], shown: SVGElement[] = [];
  for (const { boxes, element } of labels) {
    if (boxes.some((box) => taken.some((other) => overlaps(box, other)))) continue;
    taken.push(...boxes);
    shown.push(element);
  }
  return { lines, labels: shown, boxes: taken };
}

function slopeLabel(line: { x1: number; y1: number; x2: number; y2: number }, each: Slope, isMain: boolean, width: number): { boxes: Box[]; element: SVGElement } {
  const text = `${each.name || t("device memory")} ${byteRate(each.bandwidth)}`, long = text.length * 6.6;
  // Wider levels carry their name above the line, the others below it.
  const above = each.key === "l2";
  const run = Math.hypot(line.x2 - line.x1, line.y2 - line.y1), at = Math.min(0.9, (long * 0.5 + (above ? 0.35 : 0.06) * run) / run);
  const x = line.x1 + at * (line.x2 - line.x1), y = line.y1 + at * (line.y2 - line.y1);
  const angle = tilt(line), turn = (angle * Math.PI) / 180, aside = above ? -10 : 11, pieces = Math.ceil(long / PIECE);
  const element = svg("text", { class: isMain ? "halo strong" : "halo", transform: `translate(${x.toFixed(1)} ${y.toFixed(1)}) rotate(${angle.toFixed(1)})`, dy: above ? -6 : 15, "text-anchor": "middle" }, width < 480 ? each.name : text);
  // A tilted text is covered by small boxes along it.
  const boxes = Array.from({ length: pieces }, (_, i) => {
    const along = ((i + 0.5) / pieces - 0.5) * long, cx = x + Math.cos(turn) * along - Math.sin(turn) * aside, cy = y + Math.sin(turn) * along + Math.cos(turn) * aside;
    return { x: cx - PIECE / 2, y: cy - PIECE / 2, width: PIECE, height: PIECE };
  });
  return { boxes, element };
}

/** Diamonds: the step as a whole at each level that lies inside the plot. */
export function wholeMarks(s: Scales, whole: Whole[], slopes: Slope[]): SVGElement[] {
  return whole.filter((w) => Math.log10(w.intensity) <= s.x1 && Math.log10(w.intensity) >= s.x0).map((w) => {
    const x = s.x(w.intensity), y = s.y(w.flops_per_s), name = slopes.find((each) => each.key === w.key)?.name || t("device memory");
    const mark = svg("path", { class: "whole", d: `M${x},${y - 7}l7,7l-7,7l-7,-7z`, style: { fill: COLOURS[w.key] }, role: "img", "aria-label": `${t("The whole step")}: ${name}` });
    return tipped(mark, `${t("The whole step")} · ${name}`, [`${flopRate(w.flops_per_s)}`, `${digits(w.intensity)} ${t("FLOP per byte")}`, t("{level}: {bytes}, {share} of its rate.", { level: name, bytes: size(w.bytes), share: percent(w.reach) })]);
  });
}
