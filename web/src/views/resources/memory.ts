// Memory: the curve over the step by what it holds, the peak, and what holds it there.

import { CATEGORIES, OTHER, roleColour } from "../../core/colours";
import { h, pressable, svg, tipped } from "../../core/dom";
import { onResize } from "../../core/drawing";
import type { Memory } from "../../core/document";
import { percent, size, ticks, time } from "../../core/format";
import { t, word } from "../../core/language";
import { folder } from "../../core/model";
import type { ReportPage } from "../../core/page";
import { asTable, legend, panel, table } from "../../core/panel";
import { envelope, holderModule, type MemoryPicture, memoryPicture, stacked } from "./memory_data";

const GROUND = roleColour("shared");
const colour = (name: string): string => CATEGORIES[name] ?? (name === "allocated" ? GROUND : OTHER);

export function memoryPanel(page: ReportPage): HTMLElement | null {
  const m = page.run.analysis.memory;
  if (!m) return null;
  const picture = memoryPicture(page.run), plot = h("div", { class: "memory-plot" });
  let light = () => {};
  if (picture) {
    onResize(plot, () => {
      const drawn = draw(page, m, picture, Math.max(280, plot.clientWidth));
      light = drawn.light;
      plot.replaceChildren(drawn.picture);
      light();
    });
    page.selections.on(() => light());
  }
  const about = page.run.analysis.step_s
    ? t("Peak {peak}, {time} into the step. Reserved is what the allocator keeps from the device for re-use. Drawn where the device comes to each operator; the host takes the memory earlier, by as much as it runs ahead.", { peak: size(m.peak_bytes), time: time(m.peak_time_s) })
    : t("Peak {peak}, {time} into the recording. Reserved is what the allocator keeps from the device for re-use.", { peak: size(m.peak_bytes), time: time(m.peak_time_s) });
  return panel("memory", t("Memory"), about, fits(m),
    picture ? [plot, curveLegend(m, picture), momentButton(page, m, picture)] : null,
    h("div", { class: "split even" }, atPeak(m), holders(page, m)));
}

function fits(m: Memory): HTMLElement | null {
  if (!m.missing_bytes) return null;
  return h("p", { class: "alarm" }, t("Does not fit: {size} too much.", { size: size(m.missing_bytes) }));
}

function draw(page: ReportPage, m: Memory, p: MemoryPicture, width: number): { picture: SVGElement; light: () => void } {
  const height = Math.min(320, Math.max(230, width * 0.3)), left = 70, right = width - 10, top = 20, bottom = height - 40;
  const reserved = m.reserved_curve_bytes.length === m.time_s.length && m.reserved_curve_bytes.length > 0;
  const most = Math.max(m.peak_bytes, reserved ? Math.max(...m.reserved_curve_bytes) : 0);
  const near = Boolean(m.capacity_bytes && m.capacity_bytes < most * 1.6);
  const high = (near ? Math.max(most, m.capacity_bytes ?? 0) : most) * 1.1;
  const columns = Math.floor(right - left), y = (v: number) => bottom - (v / high) * (bottom - top);
  const x = (s: number) => left + (s / (p.end_s || 1)) * (right - left);
  const line = (values: number[]) => envelope(p.times, values, p.end_s, columns).map((v, k) => `${(left + k).toFixed(0)},${y(v).toFixed(1)}`);
  const picture = svg("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": t("Memory over the step") });
  const unit = 2 ** (10 * Math.floor(Math.log2(high) / 10));
  for (const v of ticks(0, high / unit, 5)) {
    picture.append(svg("line", { class: "grid", x1: left, x2: right, y1: y(v * unit), y2: y(v * unit) }),
      svg("text", { x: left - 8, y: y(v * unit) + 4, "text-anchor": "end" }, v ? short(v * unit) : "0"));
  }
  const edges = stacked(p.layers);
  p.layers.forEach((layer, i) => {
    const upper = line((edges[i] as { high: number[] }).high), lower = line((edges[i] as { low: number[] }).low).reverse();
    picture.append(tipped(svg("path", { class: "layer", d: `M${upper.join("L")}L${lower.join("L")}Z`, fill: colour(layer.name), "fill-opacity": p.layers.length > 1 ? ".85" : ".3" }), word(layer.name), [m.at_peak[layer.name] === undefined ? null : `${t("at the peak")}${t(": ")}${size(m.at_peak[layer.name])}`]));
  });
  if (p.layers.length === 1) picture.append(svg("path", { d: `M${line(p.layers[0]?.bytes ?? []).join("L")}`, fill: "none", stroke: GROUND, "stroke-width": "1.6" }));
  if (reserved) {
    const kept = envelope(m.time_s, m.reserved_curve_bytes, p.end_s, columns).map((v, k) => `${left + k},${y(v).toFixed(1)}`);
    picture.append(svg("path", { class: "reserved", d: `M${kept.join("L")}` }));
  }
  if (near) picture.append(svg("line", { class: "capacity", x1: left, x2: right, y1: y(m.capacity_bytes ?? 0), y2: y(m.capacity_bytes ?? 0) }),
    svg("text", { class: "capacity halo", x: left + 6, y: y(m.capacity_bytes ?? 0) - 5 }, `${t("capacity")} ${size(m.capacity_bytes)}`));
  const band = svg("g", { class: "chosen" });
  picture.append(band, ...peakMark(m, x(m.peak_time_s), y(m.peak_bytes), (left + right) / 2));
  for (const s of ticks(0, p.end_s, width < 560 ? 3 : 7)) {
    picture.append(svg("text", { x: x(s), y: bottom + 18, "text-anchor": s === 0 ? "start" : s > p.end_s * 0.95 ? "end" : "middle" }, s === 0 ? "0" : time(s).replace(/(\.\d*?)0+ /, "$1 ").replace(". ", " ")));
  }
  picture.append(svg("text", { x: (left + right) / 2, y: bottom + 35, "text-anchor": "middle" }, t("time since the host began the step")));
  return { picture, light: () => band.replaceChildren(...chosenStretch(page, p, x, top, bottom)) };
}

/** "1.5 GiB" instead of "1.50 GiB". */
const short = (bytes: number): string => size(bytes).replace(/\.0+ /, " ").replace(/(\.\d*?)0+ /, "$1 ");

function peakMark(m: Memory, x: number, y: number, middle: number): SVGElement[] {
  const end = x > middle;
  return [svg("circle", { cx: x, cy: y, r: 4.5, class: "peak" }),
    svg("text", { class: "strong halo", x: x + (end ? -9 : 9), y: y - 7, "text-anchor": end ? "end" : "start" }, `${t("peak")} ${size(m.peak_bytes)}`)];
}

/** The chosen stretch of time. */
function chosenStretch(page: ReportPage, p: MemoryPicture, x: (s: number) => number, top: number, bottom: number): SVGElement[] {
  const range = page.selections.current?.range;
  if (!range || p.origin_ns === null) return [];
  const from = Math.max(0, (range[0] - p.origin_ns) * 1e-9), to = Math.min(p.end_s, (range[1] - p.origin_ns) * 1e-9);
  return to > from ? [svg("rect", { x: x(from), y: top, width: Math.max(2, x(to) - x(from)), height: bottom - top })] : [];
}

function curveLegend(m: Memory, p: MemoryPicture): HTMLElement {
  const shown = p.layers.filter((layer) => layer.bytes.some((b) => b > 0));
  const capacity = m.capacity_bytes ? h("p", { class: "res-note" }, t("Capacity {size}; the peak takes {share} of it.", { size: size(m.capacity_bytes), share: percent(m.peak_bytes / m.capacity_bytes) })
    + (m.reserved_bytes ? " " + t("Reserved {size}: {share} more than the peak, for rounding and holes.", { size: size(m.reserved_bytes), share: percent(m.reserved_bytes / m.peak_bytes - 1) }) : "")) : null;
  return h("div", {}, legend([...shown.map((layer) => ({ label: word(layer.name), colour: colour(layer.name) })), ...(m.reserved_curve_bytes.length ? [{ label: t("reserved"), colour: roleColour("reference") }] : [])]), capacity);
}

/** The moment of the peak on the timeline: choose what runs then. */
function momentButton(page: ReportPage, m: Memory, p: MemoryPicture): HTMLElement | null {
  const origin = p.origin_ns;
  if (origin === null || !page.model.count) return null;
  const at = origin + m.peak_time_s * 1e9;
  const show = () => {
    const events = page.model.eventsWhere((i) => (page.model.start[i] as number) <= at && (page.model.end[i] as number) > at);
    const near = events.length ? events : page.model.eventsWhere((i) => Math.abs((page.model.start[i] as number) - at) < 20_000);
    page.selections.choose(page.model, "memory", t("the moment of the memory peak"), near, { range: [at, at + Math.max(1000, page.run.analysis.step_s * 2e6)] });
    page.show("timeline");
  };
  return h("p", { class: "res-moment" }, h("button", { type: "button", class: "chip", onclick: show }, t("Show the moment of the peak in the timeline")));
}

function atPeak(m: Memory): HTMLElement {
  const rows = Object.entries(m.at_peak).sort((a, b) => b[1] - a[1]);
  if (!rows.length) return h("div", {}, h("h4", {}, t("At the peak")), h("p", { class: "dim" }, t("What held the memory is not known.")));
  return h("div", {}, h("h4", {}, t("At the peak")), h("ul", { class: "res-bars" }, rows.map(([name, bytes]) =>
    h("li", {}, h("div", { class: "res-row" }, ...barCells(word(name), bytes, rows[0]?.[1] ?? 1, m, colour(name)))))));
}

function holders(page: ReportPage, m: Memory): HTMLElement | null {
  const rows = m.holders.map(([label, bytes]) => ({ label, bytes }));
  if (!rows.length) return null;
  const find = folder(page.run.modules_folded), paths = new Set(page.run.analysis.modules.map((x) => x.path));
  const choose = (label: string) => {
    const module = holderModule(label, paths), folded = module ? page.run.modules_folded[find(module)]?.path : undefined;
    const events = folded === undefined ? page.model.eventsOfOperator(label.split(" ").find((part) => part.includes("::")) ?? "") : page.model.eventsOfModule(folded);
    if (events.length) page.selections.choose(page.model, "memory", label, events);
  };
  const shown = rows.slice(0, 8), most = shown[0]?.bytes ?? 1;
  return h("div", {}, h("h4", {}, t("Largest holders at the peak")), h("ul", { class: "res-bars" }, shown.map((row) =>
    h("li", {}, pressable(h("div", { class: "res-row pressable res-mono", title: row.label }, ...barCells(t(row.label), row.bytes, most, m, OTHER)), () => choose(row.label))))),
    rows.length > shown.length ? asTable(() => table({
      caption: t("Largest holders at the peak"), rows, press: (row) => choose(row.label), columns: [
        { title: t("what"), cell: (row) => t(row.label), sort: (row) => row.label, text: true },
        { title: t("memory"), cell: (row) => size(row.bytes), sort: (row) => row.bytes },
        { title: t("of peak"), cell: (row) => percent(row.bytes / m.peak_bytes), sort: (row) => row.bytes },
      ],
    })) : null);
}

const barCells = (name: string, bytes: number, most: number, m: Memory, fill: string): HTMLElement[] => [
  h("span", { class: "res-what" }, name), h("span", { class: "res-track" }, h("i", { style: { width: `${(bytes / most) * 100}%`, background: fill } })),
  h("span", { class: "res-figure" }, size(bytes)), h("span", { class: "dim" }, percent(bytes / m.peak_bytes)),
];
