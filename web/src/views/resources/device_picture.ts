// The drawing of the device: boxes, cells of its units, ways filled by what flowed.

import { pressable, svg, tipped } from "../../core/dom";
import type { DeviceFacts, UseSeries } from "../../core/document";
import { byteRate, hertz, percent, power, size } from "../../core/format";
import { t } from "../../core/language";
import { DEVICE_KINDS } from "../../core/model";
import type { ReportPage } from "../../core/page";
import { type Box, cells, type Layout, layoutOf, narrowest, type Pipe, thickness, type Way } from "./device_layout";
import { average, plural, share, total, unitColour, unitMeaning, unitName } from "./units";

/** Below this nothing is narrow: the step waits for something else. */
const MARKED_ABOVE = 0.35;

export function drawDevice(page: ReportPage, d: DeviceFacts, width: number): SVGSVGElement {
  const use = page.run.use, of = (key: UseSeries["key"]) => use?.series.find((s) => s.key === key) ?? null;
  const linked = Boolean(d.scale_up && (of("link") || page.run.ranks.length > 1));
  const at = layoutOf(width, linked), found = narrowest(use), most = found && found.share >= MARKED_ABOVE ? found.series.key : undefined;
  const picture = svg("svg", { class: "plot device-plot", viewBox: `0 0 ${width} ${at.height}`, role: "group", "aria-label": t("The device itself") });
  picture.append(frame(at.gpu, "gpu"), title(d, of("power"), at));
  picture.append(...at.pipes.flatMap((pipe) => way(page, d, pipe, of(pipe.way), most === pipe.way)));
  picture.append(frame(at.l2, "part"), ...lines(at.l2, [t("L2 cache"), d.l2_bytes ? size(d.l2_bytes) : ""]));
  picture.append(...memory(d, at.memory), ...units(d, of("sm"), of("tensor"), of("vector"), at, most));
  picture.append(frame(at.host, "part"), ...lines(at.host, [t("Host"), t("CPU and its memory")]));
  if (at.others) picture.append(frame(at.others, "part"), ...lines(at.others, [page.run.ranks.length > 1 ? t("{n} other ranks", { n: page.run.ranks.length - 1 }) : t("Other devices"), d.scale_up?.name ?? ""]));
  return picture;
}

const frame = (box: Box, kind: string): SVGElement => svg("rect", { class: `box ${kind}`, ...box, rx: kind === "gpu" ? 14 : 8 });

/** Two lines of text in the middle of a box, the first one strong. */
function lines(box: Box, texts: string[]): SVGElement[] {
  const shown = texts.filter(Boolean), middle = box.y + box.height / 2, wide = box.width > 260 && box.height < 60;
  if (wide) return [svg("text", { x: box.x + box.width / 2, y: middle + 4.5, "text-anchor": "middle" }, svg("tspan", { class: "strong" }, shown[0]), shown[1] ? svg("tspan", { dx: 10 }, shown[1]) : null)];
  return shown.map((text, i) => svg("text", { class: i ? "" : "strong", x: box.x + box.width / 2, y: middle + 4 + (i - (shown.length - 1) / 2) * 18, "text-anchor": "middle" }, text));
}

function title(d: DeviceFacts, watts: UseSeries | null, at: Layout): SVGElement {
  const used = watts ? `${power(average(watts))} / ${power(watts.limit)}` : "";
  const group = svg("g", {}, svg("text", { class: "strong", x: at.gpu.x + (at.narrow ? 14 : 22), y: 26 }, at.narrow ? d.name.replace(/^NVIDIA /, "") : d.name));
  if (!watts || !watts.limit) return group;
  const right = at.gpu.x + at.gpu.width - (at.narrow ? 14 : 22), long = 90, filled = Math.min(1, average(watts) / watts.limit), y = at.narrow ? 40 : 17;
  const left = at.narrow ? at.gpu.x + 14 : right - long;
  group.append(svg("rect", { class: "gauge", x: left, y, width: long, height: 8, rx: 4 }), svg("rect", { x: left, y, width: long * filled, height: 8, rx: 4, fill: unitColour("power") }),
    svg("text", { x: at.narrow ? left + long + 8 : left - 8, y: y + 9, "text-anchor": at.narrow ? "start" : "end" }, used));
  return group;
}

const workUnknown = (d: DeviceFacts): string => t("{units} with work: not available", { units: plural(d.compute_unit_label) });

/** The multiprocessors as cells; as many are filled as had work on average. */
function units(d: DeviceFacts, sm: UseSeries | null, tensor: UseSeries | null, vector: UseSeries | null, at: Layout, most: string | undefined): SVGElement[] {
  const n = d.compute_units ?? 1, box = { ...at.units, y: at.units.y + 24, height: at.units.height - 24 };
  const grid = cells(n, box), busy = sm ? share(sm) : null, filled = busy === null ? 0 : Math.round(busy * n);
  const pitch = grid.size + grid.gap, left = box.x + (box.width - grid.columns * pitch + grid.gap) / 2;
  const path = (from: number, to: number) => {
    let out = "";
    for (let i = from; i < to; i++) out += `M${(left + (i % grid.columns) * pitch).toFixed(1)},${(box.y + Math.floor(i / grid.columns) * pitch).toFixed(1)}h${grid.size.toFixed(1)}v${grid.size.toFixed(1)}h${(-grid.size).toFixed(1)}z`;
    return out;
  };
  const busiest = [tensor, vector].filter((s) => s !== null), shown = at.narrow ? busiest.sort((a, b) => (share(b) ?? 0) - (share(a) ?? 0)).slice(0, 1) : busiest;
  const told = [...(busy === null ? [workUnknown(d)] : []), ...busiest.map((s) => `${unitName(s.key)} ${percent(share(s))}`)];
  const head = `${n} ${n === 1 ? d.compute_unit_label : plural(d.compute_unit_label)}${d.clock_hz && !at.narrow ? ` · ${hertz(d.clock_hz)}` : ""}`;
  const group = svg("g", { role: "img", tabindex: "0", "aria-label": `${head}. ${told.join(", ")}` },
    svg("rect", { class: "ground", x: at.units.x, y: at.units.y, width: at.units.width, height: at.units.height, fill: "transparent" }),
    // Dashed: how many had work is not known, which is not the same as none.
    svg("path", { class: busy === null ? "cell unknown" : "cell", d: path(filled, n) }), svg("path", { class: "cell on", d: path(0, filled), style: { fill: unitColour("sm") } }),
    svg("text", { x: at.units.x, y: at.units.y + 12 }, svg("tspan", { class: "strong" }, head), busy === null ? svg("tspan", { class: "unknown", dx: 10 }, at.narrow ? "" : workUnknown(d)) : null),
    svg("text", { x: at.units.x + at.units.width, y: at.units.y + 12, "text-anchor": "end" }, shown.map((s, i) => [i ? " · " : "", svg("tspan", { class: most === s.key ? "narrowest" : "" }, `${unitName(s.key)} ${percent(share(s))}`)])));
  tipped(group, head, [busy === null ? t("How many had work is not known.") : t("{n} of {all} had at least one thread block, on average over the step", { n: filled, all: n }), ...[tensor, vector].map((s) => (s ? `${unitName(s.key)}${t(": ")}${percent(share(s))} · ${unitMeaning(s.key)}` : null))]);
  return [group];
}

/** Device memory, drawn as the layers that it is stacked of. */
function memory(d: DeviceFacts, box: Box): SVGElement[] {
  const layers = /HBM/i.test(d.memory_type ?? "") ? [6, 3] : [];
  return [...layers.map((shift) => svg("rect", { class: "box part", x: box.x + shift, y: box.y + shift, width: box.width, height: box.height, rx: 8 })), frame(box, "part"),
    ...lines(box, [d.memory_type?.split(" ")[0] ?? t("device memory"), size(d.memory_bytes)])];
}

/** A way: its outline by what it can carry, filled as far as it was used. */
function way(page: ReportPage, d: DeviceFacts, pipe: Pipe, series: UseSeries | null, marked: boolean): SVGElement[] {
  const limit = series?.limit ?? limitOf(d, pipe.way), across = limit ? thickness(limit) : 8, used = series && limit ? average(series) / limit : null;
  const upright = pipe.x1 === pipe.x2, long = upright ? pipe.y2 - pipe.y1 : pipe.x2 - pipe.x1;
  const box = (wide: number) => (upright ? { x: pipe.x1 - wide / 2, y: pipe.y1, width: wide, height: long } : { x: pipe.x1, y: pipe.y1 - wide / 2, width: long, height: wide });
  const group = svg("g", { class: marked ? "way marked" : "way" }, svg("rect", { class: "pipe", ...box(across) }));
  if (used !== null) group.append(svg("rect", { ...box(Math.max(1.2, Math.min(1, used) * across)), fill: unitColour(pipe.way) }));
  const name = wayName(d, pipe.way), texts = wayTexts(d, pipe, series, limit, marked);
  // Beside the way, not in it: a button's name must hold the text inside it.
  const written = texts.map((text, i) => svg("text", { class: `halo ${i === 0 ? "strong" : ""} ${marked && i === 0 ? "narrowest" : ""}`, x: pipe.text.x, y: pipe.text.y + i * 16, "text-anchor": pipe.text.anchor }, text));
  tipped(group, name, series ? [`${byteRate(average(series))} ${t("on average")}`, limit ? t("{share} of {limit}", { share: percent(used), limit: byteRate(limit) }) : null, `${series.is_least ? "≥ " : ""}${total(series)} ${t("in the step")}`,
    ...Object.entries(series.parts).map(([part, bytes]) => `${t(part)}${t(": ")}${size(bytes)}`), unitMeaning(pipe.way)] : [t("nothing seen in this step"), limit ? `${t("can carry")} ${byteRate(limit)}` : null]);
  const events = series ? eventsOf(page, pipe.way) : [];
  if (!events.length) return [group, ...written];
  group.classList.add("pressable");
  group.setAttribute("aria-label", `${name}: ${texts.join(", ")}`);
  return [pressable(group, () => page.selections.choose(page.model, "device", name, events)), ...written];
}

function wayTexts(d: DeviceFacts, pipe: Pipe, series: UseSeries | null, limit: number | null, marked: boolean): string[] {
  const across = pipe.way === "h2d" || pipe.way === "d2h" || pipe.way === "link";
  if (!series) return across ? (pipe.way === "d2h" ? [] : [wayName(d, pipe.way), limit ? byteRate(limit) : ""].filter(Boolean)) : [limit ? byteRate(limit) : ""].filter(Boolean);
  const mean = average(series), least = series.is_least ? "≥ " : "", part = limit ? percent(mean / limit) : "";
  const mark = marked ? ` · ${t("most used")}` : "";
  if (across) return [pipe.way === "link" ? wayName(d, pipe.way) : unitName(pipe.way), `${least}${byteRate(mean)}`, limit ? `${part} / ${byteRate(limit)}` : ""].filter(Boolean);
  return [`${least}${byteRate(mean)}${mark}`, limit ? t("{share} of {limit}", { share: part, limit: byteRate(limit) }) : ""].filter(Boolean);
}

const limitOf = (d: DeviceFacts, key: Way): number | null =>
  key === "l2" ? d.l2_bytes_per_s : key === "memory" ? d.memory_bandwidth_bytes_per_s : key === "link" ? (d.scale_up?.bandwidth_bytes_per_s ?? null) : (d.host_link?.bandwidth_bytes_per_s ?? null);

const wayName = (d: DeviceFacts, key: Way): string =>
  key === "link" ? (d.scale_up?.name ?? unitName("link")) : key === "h2d" || key === "d2h" ? (d.host_link?.name ?? unitName(key)) : unitName(key, d.compute_unit_label, d.memory_type);

/** The device work that a way stands for: copies, collectives, kernels that it limits. */
function eventsOf(page: ReportPage, key: Way): number[] {
  const tl = page.run.timeline;
  if (!tl) return [];
  const copies = { h2d: /HtoD|h2d|host to device/i, d2h: /DtoH|d2h|device to host/i } as const;
  if (key === "link") {
    const kind = tl.kinds.indexOf("communication");
    return page.model.eventsWhere((i) => tl.events.kind[i] === kind);
  }
  if (key === "h2d" || key === "d2h") {
    const kind = tl.kinds.indexOf("memcpy"), mine = tl.names.map((name) => copies[key].test(name)), lanes = tl.lanes.map((lane) => copies[key].test(lane.name));
    return page.model.eventsWhere((i) => tl.events.kind[i] === kind && Boolean(mine[tl.events.name[i] as number] || lanes[tl.events.lane[i] as number]));
  }
  const limited = tl.kernels.map((k) => k.limiter === key);
  return page.model.eventsWhere((i) => (tl.events.kind[i] as number) < DEVICE_KINDS && Boolean(limited[tl.events.kernel[i] as number]));
}
