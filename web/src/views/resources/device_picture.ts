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
/** Parcels on a way while something is copied. */
const PARCELS = 5;

/** What the picture shows: of the whole step, or of a moment. */
export interface Shown {
  /** What a unit does, in its curve's unit; null where that is not known. */
  read: (series: UseSeries) => number | null;
  /** At a moment: how full each multiprocessor is, 0 to 1, and of what; null for the step as a whole. */
  cells: { full: readonly number[]; colour: string; told: string } | null;
  /** Of a copy that runs: how far it has come, 0 to 1. */
  moved: Partial<Record<Way, number>>;
}

/** The step as a whole: means, and as many multiprocessors as had work on average. */
export const OF_THE_STEP: Shown = { read: average, cells: null, moved: {} };

export function drawDevice(page: ReportPage, d: DeviceFacts, width: number, shown: Shown = OF_THE_STEP): SVGSVGElement {
  const use = page.run.use, of = (key: UseSeries["key"]) => use?.series.find((s) => s.key === key) ?? null;
  const linked = Boolean(d.scale_up && (of("link") || page.run.ranks.length > 1));
  const at = layoutOf(width, linked), found = narrowest(use, shown.read), most = found && found.share >= MARKED_ABOVE ? found.series.key : undefined;
  const picture = svg("svg", { class: "plot device-plot", viewBox: `0 0 ${width} ${at.height}`, role: "group", "aria-label": t("The device itself") });
  picture.append(frame(at.gpu, "gpu"), title(d, of("power"), at, shown));
  picture.append(...at.pipes.flatMap((pipe) => way(page, d, pipe, of(pipe.way), most === pipe.way, shown)));
  picture.append(frame(at.l2, "part"), ...lines(at.l2, [t("L2 cache"), d.l2_bytes ? size(d.l2_bytes) : ""]));
  picture.append(...memory(d, at.memory), ...units(d, of("sm"), of("tensor"), of("vector"), at, most, shown));
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

function title(d: DeviceFacts, watts: UseSeries | null, at: Layout, { read }: Shown): SVGElement {
  const drawn = watts && read(watts), used = watts ? `${power(drawn)} / ${power(watts.limit)}` : "";
  const group = svg("g", {}, svg("text", { class: "strong", x: at.gpu.x + (at.narrow ? 14 : 22), y: 26 }, at.narrow ? d.name.replace(/^NVIDIA /, "") : d.name));
  if (!watts || !watts.limit) return group;
  const right = at.gpu.x + at.gpu.width - (at.narrow ? 14 : 22), long = 90, filled = Math.min(1, (drawn ?? 0) / watts.limit), y = at.narrow ? 40 : 17;
  const left = at.narrow ? at.gpu.x + 14 : right - long;
  group.append(svg("rect", { class: "gauge", x: left, y, width: long, height: 8, rx: 4 }), svg("rect", { x: left, y, width: long * filled, height: 8, rx: 4, fill: unitColour("power") }),
    svg("text", { x: at.narrow ? left + long + 8 : left - 8, y: y + 9, "text-anchor": at.narrow ? "start" : "end" }, used));
  return group;
}

const workUnknown = (d: DeviceFacts): string => t("{units} with work: not available", { units: plural(d.compute_unit_label) });

/** The multiprocessors as cells: as many are filled as had work on average, or each as full as it is at a moment. */
function units(d: DeviceFacts, sm: UseSeries | null, tensor: UseSeries | null, vector: UseSeries | null, at: Layout, most: string | undefined, shown: Shown): SVGElement[] {
  const n = d.compute_units ?? 1, box = { ...at.units, y: at.units.y + 24, height: at.units.height - 24 };
  const amount = sm && shown.read(sm), busy = sm && amount !== null ? share(sm, amount) : null, filled = busy === null ? 0 : Math.round(busy * n);
  const known = shown.cells !== null || busy !== null, full = shown.cells?.full ?? Array.from({ length: n }, (_, i) => (i < filled ? 1 : 0));
  const part = (series: UseSeries) => { const now = shown.read(series); return now === null ? null : share(series, now); };
  const busiest = [tensor, vector].filter((s) => s !== null), named = at.narrow ? [...busiest].sort((a, b) => (part(b) ?? 0) - (part(a) ?? 0)).slice(0, 1) : busiest;
  const figures = busiest.map((s) => `${unitName(s.key)} ${percent(part(s))}`);
  const told = shown.cells ? shown.cells.told : known ? t("{n} of {all} had at least one thread block, on average over the step", { n: filled, all: n }) : t("How many had work is not known.");
  const head = `${n} ${n === 1 ? d.compute_unit_label : plural(d.compute_unit_label)}${d.clock_hz && !at.narrow ? ` · ${hertz(d.clock_hz)}` : ""}`;
  const group = svg("g", { role: "img", tabindex: "0", "aria-label": `${head}. ${[...(known ? [] : [workUnknown(d)]), ...figures].join(", ")}` },
    svg("rect", { class: "ground", x: at.units.x, y: at.units.y, width: at.units.width, height: at.units.height, fill: "transparent" }),
    ...squaresOf(n, box, full, known, shown.cells?.colour ?? unitColour("sm")),
    svg("text", { x: at.units.x, y: at.units.y + 12 }, svg("tspan", { class: "strong" }, head), known ? null : svg("tspan", { class: "unknown", dx: 10 }, at.narrow ? "" : workUnknown(d))),
    svg("text", { x: at.units.x + at.units.width, y: at.units.y + 12, "text-anchor": "end" }, named.map((s, i) => [i ? " · " : "", svg("tspan", { class: most === s.key ? "narrowest" : "" }, `${unitName(s.key)} ${percent(part(s))}`)])));
  tipped(group, head, [told, ...busiest.map((s) => `${unitName(s.key)}${t(": ")}${percent(part(s))} · ${unitMeaning(s.key)}`)]);
  return [group];
}

/** A square each, those equally full in one path; dashed where it is not known, which is not the same as none. */
function squaresOf(n: number, box: Box, full: readonly number[], known: boolean, colour: string): SVGElement[] {
  const grid = cells(n, box), pitch = grid.size + grid.gap, left = box.x + (box.width - grid.columns * pitch + grid.gap) / 2, paths = new Map<number, string>();
  for (let i = 0; i < n; i++) {
    const side = grid.size.toFixed(1), level = Math.ceil((full[i] ?? 0) * 8) / 8;
    paths.set(level, `${paths.get(level) ?? ""}M${(left + (i % grid.columns) * pitch).toFixed(1)},${(box.y + Math.floor(i / grid.columns) * pitch).toFixed(1)}h${side}v${side}h-${side}z`);
  }
  return [...paths].map(([level, d]) => (level === 0 ? svg("path", { class: known ? "cell" : "cell unknown", d })
    : svg("path", { class: "cell on", d, style: { fill: colour, fillOpacity: String(0.3 + 0.7 * level) } })));
}

/** Device memory, drawn as the layers that it is stacked of. */
function memory(d: DeviceFacts, box: Box): SVGElement[] {
  const layers = /HBM/i.test(d.memory_type ?? "") ? [6, 3] : [];
  return [...layers.map((shift) => svg("rect", { class: "box part", x: box.x + shift, y: box.y + shift, width: box.width, height: box.height, rx: 8 })), frame(box, "part"),
    ...lines(box, [d.memory_type?.split(" ")[0] ?? t("device memory"), size(d.memory_bytes)])];
}

/** A way: its outline by what it can carry, filled as far as it was used. */
function way(page: ReportPage, d: DeviceFacts, pipe: Pipe, series: UseSeries | null, marked: boolean, shown: Shown): SVGElement[] {
  const amount = series && shown.read(series), limit = series?.limit ?? limitOf(d, pipe.way), across = limit ? thickness(limit) : 8, used = amount !== null && limit ? amount / limit : null;
  const upright = pipe.x1 === pipe.x2, long = upright ? pipe.y2 - pipe.y1 : pipe.x2 - pipe.x1;
  const box = (wide: number) => (upright ? { x: pipe.x1 - wide / 2, y: pipe.y1, width: wide, height: long } : { x: pipe.x1, y: pipe.y1 - wide / 2, width: long, height: wide });
  const group = svg("g", { class: marked ? "way marked" : "way" }, svg("rect", { class: "pipe", ...box(across) }));
  if (used) group.append(svg("rect", { ...box(Math.max(1.2, Math.min(1, used) * across)), fill: unitColour(pipe.way) }));
  const moved = shown.moved[pipe.way];
  if (moved !== undefined) group.append(cargo(pipe, moved, across));
  const name = wayName(d, pipe.way), texts = wayTexts(d, pipe, series, limit, marked, amount);
  // Beside the way, not in it: a button's name must hold the text inside it.
  const written = texts.map((text, i) => svg("text", { class: `halo ${i === 0 ? "strong" : ""} ${marked && i === 0 ? "narrowest" : ""}`, x: pipe.text.x, y: pipe.text.y + i * 16, "text-anchor": pipe.text.anchor }, text));
  tipped(group, name, series ? [shown === OF_THE_STEP ? `${byteRate(amount)} ${t("on average")}` : byteRate(amount), limit ? t("{share} of {limit}", { share: percent(used), limit: byteRate(limit) }) : null, `${series.is_least ? "≥ " : ""}${total(series)} ${t("in the step")}`,
    ...Object.entries(series.parts).map(([part, bytes]) => `${t(part)}${t(": ")}${size(bytes)}`), unitMeaning(pipe.way)] : [t("nothing seen in this step"), limit ? `${t("can carry")} ${byteRate(limit)}` : null]);
  const events = series ? eventsOf(page, pipe.way) : [];
  if (!events.length) return [group, ...written];
  group.classList.add("pressable");
  group.setAttribute("aria-label", `${name}: ${texts.join(", ")}`);
  return [pressable(group, () => page.selections.choose(page.model, "device", name, events)), ...written];
}

/** What is under way: parcels along the pipe, the first as far as the copy has come. */
function cargo(pipe: Pipe, moved: number, across: number): SVGElement {
  const back = pipe.way === "d2h", at = (share: number) => [pipe.x1 + (pipe.x2 - pipe.x1) * (back ? 1 - share : share), pipe.y1 + (pipe.y2 - pipe.y1) * (back ? 1 - share : share)] as const;
  const parcels = Array.from({ length: PARCELS }, (_, i) => (moved * PARCELS + i) / PARCELS % 1);
  return svg("g", { class: "cargo" }, parcels.map((share) => { const [cx, cy] = at(share); return svg("circle", { cx, cy, r: Math.max(2.5, across / 3.5), fill: "var(--ink)" }); }));
}

function wayTexts(d: DeviceFacts, pipe: Pipe, series: UseSeries | null, limit: number | null, marked: boolean, mean: number | null): string[] {
  const across = pipe.way === "h2d" || pipe.way === "d2h" || pipe.way === "link";
  if (!series) return across ? (pipe.way === "d2h" ? [] : [wayName(d, pipe.way), limit ? byteRate(limit) : ""].filter(Boolean)) : [limit ? byteRate(limit) : ""].filter(Boolean);
  const least = series.is_least && mean !== null ? "≥ " : "", part = limit && mean !== null ? percent(mean / limit) : "";
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
