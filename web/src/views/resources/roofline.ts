// The roofline: each group of equal kernels as a bubble under the roofs of each level of the machine.

import { familyColour } from "../../core/colours";
import { h, pressable, svg, tipped } from "../../core/dom";
import { onResize } from "../../core/drawing";
import { count, digits, flopRate, percent, size, time } from "../../core/format";
import { t, word } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { asTable, legend, panel, table } from "../../core/panel";
import { type Level, type Point, pointsAt, roofsOf, slopesOf, wholeStep } from "./roofline_data";
import { besideRoofline } from "./roofline_beside";
import { axes, roofLines, wholeMarks } from "./roofline_lines";
import { type Box, keepClear, radius, scalesOf } from "./roofline_layout";

export function rooflinePanel(page: ReportPage): HTMLElement | null {
  const roof = page.run.analysis.roofline;
  if (!roof?.memory_bandwidth_bytes_per_s || !pointsAt(page.run, "memory").length) return null;
  const place = h("div", { class: "roofline" });
  let level: Level = "memory", bubbles: [SVGCircleElement, Point][] = [];
  const light = () => bubbles.forEach(([bubble, point]) => {
    const chosen = page.selections.current;
    bubble.classList.toggle("on", chosen !== null && chosen.groups.has(point.group));
    bubble.classList.toggle("off", chosen !== null && !chosen.groups.has(point.group));
  });
  const draw = () => {
    bubbles = drawInto(page, place, level);
    light();
  };
  onResize(place, draw);
  page.selections.on(light);
  const levels: [Level, string][] = [["memory", t("device memory")], ["l2", t("L2 cache")]];
  const chips = h("div", { class: "res-chips", role: "group", "aria-label": t("Bytes counted at") }, h("span", { class: "dim" }, t("Bytes counted at")), levels.map(([key, name]) =>
    h("button", { type: "button", class: "chip", "aria-pressed": String(key === level), onclick: (e: Event) => {
      level = key;
      chips.querySelectorAll("button").forEach((b) => b.setAttribute("aria-pressed", String(b === e.currentTarget)));
      draw();
    } }, name)));
  const points = pointsAt(page.run, "memory");
  const kinds = [...new Set(points.map((p) => p.kind))];
  return panel("roofline", t("Roofline"),
    t("Each bubble is a group of equal kernels, its area their time. To the right: more arithmetic for each byte; up: faster. A slope is what a level of the machine can feed, a flat roof what the arithmetic units can do. The nearer to its line, the better a kernel uses the device. Press a bubble to choose its kernels."),
    pointsAt(page.run, "l2").length ? chips : null, place,
    legend(kinds.map((kind) => ({ label: word(kind), colour: familyColour(kind) }))),
    points.some((p) => p.flops_per_s > 1.1 * p.roof_flops_per_s) ? h("p", { class: "res-note" }, t("Some kernels lie above their roof: their algorithm needs fewer operations than are counted, as Winograd's does for convolutions.")) : null,
    levelNote(page), besideRoofline(page), asTable(() => pointTable(page)));
}

/** What is known of the levels besides device memory. */
function levelNote(page: ReportPage): HTMLElement | null {
  const found = wholeStep(page.run);
  if (!found.length) return null;
  const slopes = new Map(slopesOf(page.run).map((s) => [s.key, s]));
  return h("p", { class: "res-note" }, t("Diamonds: the whole step, all its FLOPs over the bytes that crossed a level."), " ",
    found.map((w) => t("{level}: {bytes}, {share} of its rate.", { level: slopes.get(w.key)?.name || t("device memory"), bytes: size(w.bytes), share: percent(w.reach) })).join(" "));
}

function drawInto(page: ReportPage, place: HTMLElement, level: Level): [SVGCircleElement, Point][] {
  const width = Math.max(300, place.clientWidth), height = Math.min(470, Math.max(320, width * 0.5));
  const points = pointsAt(page.run, level), roofs = roofsOf(page.run, points), whole = wholeStep(page.run), slopes = slopesOf(page.run);
  const highest = roofs[0]?.flops_per_s ?? Math.max(...points.map((p) => p.flops_per_s));
  const main = slopes.find((s) => s.key === level) ?? slopes[0];
  const ridge = { x: highest / (main?.bandwidth ?? 1), y: highest };
  const s = scalesOf([...points.map((p) => p.x), ...whole.filter((w) => w.key === "memory" || w.key === "l2").map((w) => w.intensity)], [...points.map((p) => p.flops_per_s), ...whole.map((w) => w.flops_per_s)], ridge, width, height);
  const picture = svg("svg", { class: "plot roofline-plot", viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": t("Roofline") });
  picture.append(...axes(s, width));
  const lines = roofLines(s, slopes, roofs, level, width);
  picture.append(...lines.lines);
  const longest = Math.max(...points.map((p) => p.time_s)), largest = Math.max(12, Math.min(24, width / 40));
  const bubbles = points.map((p): [SVGCircleElement, Point] => [bubble(page, p, s.x(p.x), s.y(p.flops_per_s), radius(p.time_s, longest, largest)), p]);
  // The longest first, so that small ones lie on top; one stop of the tab key, then arrows.
  picture.append(...names(points, s, longest, largest, width, lines.boxes), ...bubbles.map(([b]) => b), ...lines.labels, ...wholeMarks(s, whole, slopes));
  roving(bubbles.map(([b]) => b));
  place.replaceChildren(picture);
  return bubbles;
}

function bubble(page: ReportPage, p: Point, x: number, y: number, r: number): SVGCircleElement {
  const circle = svg("circle", { class: "bubble", cx: x, cy: y, r, fill: familyColour(p.kind), stroke: familyColour(p.kind), "aria-label": `${p.label}, ${time(p.time_s)}` });
  tipped(circle, p.label, [
    `${time(p.time_s)} (${percent(p.time_s / page.run.analysis.step_s)}) ×${count(p.count)}`,
    `${flopRate(p.flops_per_s)}, ${t("{share} of its roof", { share: percent(p.flops_per_s / p.roof_flops_per_s) })}`,
    `${digits(p.x)} ${t("FLOP per byte")}`, `${t("limited by")}${t(": ")}${word(p.limiter)}`, p.kernel,
  ]);
  return pressable(circle, () => choose(page, p));
}

const choose = (page: ReportPage, p: Point): void => page.selections.choose(page.model, "roofline", p.label, page.model.eventsOfGroup(p.group));

/** Names beside the longest kernels, where they cover neither each other nor a bubble. */
function names(points: Point[], s: ReturnType<typeof scalesOf>, longest: number, largest: number, width: number, taken: Box[]): SVGElement[] {
  if (width < 560) return [];
  const round = points.map((p) => {
    const r = radius(p.time_s, longest, largest);
    return { x: s.x(p.x) - r, y: s.y(p.flops_per_s) - r, width: 2 * r, height: 2 * r };
  });
  const some = points.slice(0, 8).map((p, i) => {
    const own = round[i] as Box, text = width < 900 ? (p.label.split(" ")[0] ?? "") : p.label, wide = text.length * 6.4;
    const right = { x: own.x + own.width + 4, y: own.y + own.height / 2 - 7, width: wide, height: 14 }, left = { ...right, x: own.x - 4 - wide };
    const free = (box: Box) => box.x >= s.left && box.x + wide <= s.right && keepClear([box], round)[0];
    const box = free(right) ? right : free(left) ? left : null;
    return box ? { text, box, anchor: box === left ? "end" : "start" } : null;
  }).filter((n) => n !== null);
  const clear = keepClear(some.map((n) => n.box), taken);
  return some.filter((_, i) => clear[i]).map((n) => svg("text", { class: "halo name", x: n.anchor === "end" ? n.box.x + n.box.width : n.box.x, y: n.box.y + 11, "text-anchor": n.anchor, "aria-hidden": "true" }, n.text));
}

/** One stop of the tab key for all; arrows walk through them. */
function roving(elements: SVGElement[]): void {
  elements.forEach((element, i) => {
    element.setAttribute("tabindex", i === 0 ? "0" : "-1");
    element.addEventListener("keydown", (e) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
      const next = step === undefined ? undefined : elements[(i + step + elements.length) % elements.length];
      if (!next) return;
      e.preventDefault();
      element.setAttribute("tabindex", "-1");
      next.setAttribute("tabindex", "0");
      next.focus();
    });
  });
}

function pointTable(page: ReportPage): HTMLElement {
  const points = pointsAt(page.run, "memory"), step = page.run.analysis.step_s;
  const drawn = (p: Point) => page.run.use?.l2_bytes[p.group] ?? null;
  const atL2 = new Map(pointsAt(page.run, "l2").map((p) => [p.group, p.x]));
  return table<Point>({
    caption: t("Roofline"), rows: points, press: (p) => choose(page, p), search: (p) => `${p.label} ${p.kernel}`,
    columns: [
      { title: t("kernel"), cell: (p) => p.label, sort: (p) => p.label, text: true },
      { title: t("time"), cell: (p) => time(p.time_s), sort: (p) => p.time_s },
      { title: t("of step"), cell: (p) => percent(p.time_s / step), sort: (p) => p.time_s },
      { title: t("FLOP per byte"), cell: (p) => digits(p.intensity_flops_per_byte), sort: (p) => p.intensity_flops_per_byte },
      { title: t("at L2"), cell: (p) => (drawn(p) ? digits(atL2.get(p.group) ?? NaN) : t("not available")), sort: (p) => atL2.get(p.group) ?? null },
      { title: t("rate"), cell: (p) => flopRate(p.flops_per_s), sort: (p) => p.flops_per_s },
      { title: t("of its roof"), cell: (p) => percent(p.flops_per_s / p.roof_flops_per_s), sort: (p) => p.flops_per_s / p.roof_flops_per_s },
      { title: t("limited by"), cell: (p) => word(p.limiter), sort: (p) => p.limiter, text: true },
    ],
    made: (row, p) => row.classList.toggle("lit", Boolean(page.selections.current?.groups.has(p.group))),
  });
}

