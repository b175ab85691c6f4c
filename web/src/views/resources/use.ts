// Use over the step: each unit of the device as a small curve under the step's phases; brush to choose.

import { PHASES } from "../../core/colours";
import { h, svg } from "../../core/dom";
import { onResize } from "../../core/drawing";
import type { UseOverTime } from "../../core/document";
import { percent, ticks, time } from "../../core/format";
import { t, word } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { asTable, panel, table } from "../../core/panel";
import { attend } from "./use_brush";
import { area, coarser, eventsBetween, means, stretches, topOf } from "./use_data";
import { atLeast, average, limitOrigin, share, stepSeconds, total, unitColour, unitMeaning, unitName, value } from "./units";

const ROW = 58, BAND = 22, FOOT = 30;

export interface Frame { left: number; right: number; width: number; height: number }

export function usePanel(page: ReportPage): HTMLElement | null {
  const use = page.run.use;
  if (!use || !use.series.length) return null;
  const place = h("div", { class: "use" });
  const draw = () => drawInto(page, use, place);
  onResize(place, draw);
  const energyNote = use.series.some((s) => s.key === "power" && s.origin === "computed");
  const several = page.run.ranks.length > 1 ? " " + t("Rank {rank} is shown.", { rank: use.rank }) : "";
  return panel("use", t("Use over the step"),
    t("What each unit of the device does from the begin of the step to its end; the top line is what it could do. A high curve names what the step waits for at that moment; where all are low, the device waits for something else. Drag over a stretch to choose its work.") + several,
    place,
    use.series.some((s) => s.key === "memory") ? null : h("p", { class: "res-note" }, t("What the kernels compute and move is not known: the recording holds no shapes, or no model covers them.")),
    energyNote ? h("p", { class: "res-note" }, t("Work is spread evenly over each kernel's time; power follows from the work, so it can pass the limit for a moment where the average holds it.")) : null,
    asTable(() => phaseTable(page, use)));
}

function drawInto(page: ReportPage, use: UseOverTime, place: HTMLElement): void {
  const width = Math.max(280, place.clientWidth), narrow = width < 640;
  const left = narrow ? 0 : 186, row = narrow ? ROW + 18 : ROW;
  const height = BAND + use.series.length * row + FOOT;
  const frame: Frame = { left, right: width - (narrow ? 0 : 12), width, height };
  const x = (ns: number) => left + ((ns - use.start_ns) / (use.end_ns - use.start_ns)) * (frame.right - left);
  const picture = svg("svg", { class: "plot use-plot", viewBox: `0 0 ${width} ${height}`, style: { height: `${height}px` }, "aria-hidden": "true" });
  picture.append(...phaseBands(use, x, height));
  use.series.forEach((_, i) => picture.append(...curve(page, use, i, frame, BAND + i * row, row, narrow)));
  picture.append(...timeAxis(use, x, height, narrow));
  const chosen = svg("g", { class: "chosen" });
  picture.append(chosen);
  const stage = h("div", { class: "stage", tabindex: "0", role: "slider", "aria-label": t("A moment of the step; arrows move it, with Shift a stretch is chosen, Enter chooses"), "aria-valuemin": 0, "aria-valuemax": use.bins, "aria-valuenow": 0 }, picture);
  attend(stage, picture, use, frame, (from, to) => {
    page.selections.choose(page.model, "use", t("{from} to {to} of the step", { from: time((from - use.start_ns) * 1e-9), to: time((to - use.start_ns) * 1e-9) }), eventsBetween(page.model, use.rank, from, to), { range: [from, to] });
  });
  const light = () => chosen.replaceChildren(...stretches(page.model, use, page.selections.current).slice(0, 2000).map(([from, to]) =>
    svg("rect", { x: x(from), y: BAND - 4, width: Math.max(1.5, x(to) - x(from)), height: height - BAND - FOOT + 6 })));
  lighting.set(place, light);
  place.replaceChildren(stage);
  light();
  if (!followed.has(place)) {
    followed.add(place);
    page.selections.on(() => lighting.get(place)?.());
  }
}

const lighting = new WeakMap<HTMLElement, () => void>();
const followed = new WeakSet<HTMLElement>();

function phaseBands(use: UseOverTime, x: (ns: number) => number, height: number): SVGElement[] {
  return use.phases.flatMap((phase) => {
    const from = x(phase.start_ns), wide = x(phase.end_ns) - from, name = word(phase.name), colour = PHASES[phase.name] ?? PHASES.other;
    return [
      svg("rect", { x: from, y: 0, width: Math.max(0.5, wide - 1), height: 4, rx: 2, fill: colour }),
      svg("rect", { x: from, y: BAND, width: wide, height: height - BAND - FOOT, fill: colour, "fill-opacity": ".045" }),
      wide > name.length * 8 + 6 ? svg("text", { x: from + wide / 2, y: 17, "text-anchor": "middle", class: "phase" }, name) : svg("g"),
    ];
  });
}

function curve(page: ReportPage, use: UseOverTime, i: number, frame: Frame, top: number, row: number, narrow: boolean): SVGElement[] {
  const series = use.series[i] as UseOverTime["series"][number], base = top + row - 6, high = ROW - 14;
  const most = topOf(series), wide = frame.right - frame.left, colour = unitColour(series.key);
  const name = unitName(series.key, page.run.device?.compute_unit_label);
  const part = share(series), limitY = series.limit === null ? null : base - (series.limit / most) * high;
  const figure = part === null || series.unit === "share" ? value(series, average(series)) : t("{share} of {limit}", { share: percent(part), limit: value(series, series.limit) });
  const label = narrow
    ? [svg("text", { class: "name", x: 0, y: top + 13 }, name), svg("text", { class: "figure", x: frame.right, y: top + 13, "text-anchor": "end" }, atLeast(series, figure))]
    : [svg("text", { class: "name", x: frame.left - 12, y: base - high + 14, "text-anchor": "end" }, name), svg("text", { class: "figure", x: frame.left - 12, y: base - high + 30, "text-anchor": "end" }, atLeast(series, figure))];
  return [
    svg("line", { class: "grid", x1: frame.left, x2: frame.right, y1: base, y2: base }),
    limitY === null ? svg("g") : svg("line", { class: "limit", x1: frame.left, x2: frame.right, y1: limitY, y2: limitY }),
    svg("path", { d: area(coarser(series.values, Math.floor(wide)), most, frame.left, wide, base, high), fill: colour, "fill-opacity": ".78" }),
    ...label,
  ];
}

function timeAxis(use: UseOverTime, x: (ns: number) => number, height: number, narrow: boolean): SVGElement[] {
  const seconds = stepSeconds(use), y = height - FOOT + 18;
  return ticks(0, seconds, narrow ? 3 : 8).map((s) => {
    const at = x(use.start_ns + s * 1e9), end = s > seconds * 0.97;
    return svg("text", { x: at, y, "text-anchor": s === 0 ? "start" : end ? "end" : "middle" }, s === 0 ? "0" : plainTime(s));
  });
}

/** "10 ms" instead of "10.0 ms". */
const plainTime = (s: number): string => time(s).replace(/\.0+ /, " ").replace(/(\.\d*?)0+ /, "$1 ");

function phaseTable(page: ReportPage, use: UseOverTime): HTMLElement {
  const whole = { name: t("the whole step"), from: use.start_ns, to: use.end_ns };
  const rows = [whole, ...use.phases.map((p) => ({ name: word(p.name), from: p.start_ns, to: p.end_ns }))].map((r) => ({ ...r, means: means(use, r.from, r.to) }));
  return h("div", {},
    table({
      caption: t("Use over the step"), rows, press: (r) => page.selections.choose(page.model, "use", r.name, eventsBetween(page.model, use.rank, r.from, r.to), { range: [r.from, r.to] }),
      columns: [
        { title: t("stretch"), cell: (r) => r.name, text: true },
        { title: t("time"), cell: (r) => time((r.to - r.from) * 1e-9), sort: (r) => r.to - r.from },
        ...use.series.map((series, i) => ({
          title: unitName(series.key, page.run.device?.compute_unit_label), sort: (r: (typeof rows)[number]) => r.means[i]?.mean ?? null,
          cell: (r: (typeof rows)[number]) => value(series, r.means[i]?.mean),
        })),
      ],
    }),
    table({
      caption: t("What the curves mean"), rows: use.series,
      columns: [
        { title: t("unit"), cell: (s) => unitName(s.key, page.run.device?.compute_unit_label), text: true },
        { title: t("what is counted"), cell: (s) => unitMeaning(s.key) + (s.is_least ? t(" (at least)") : ""), text: true },
        { title: t("in the step"), cell: total },
        { title: t("limit"), cell: (s) => (s.unit === "share" ? "" : `${value(s, s.limit)}${limitOrigin(s) ? ` (${limitOrigin(s)})` : ""}`) },
        { title: t("origin"), cell: (s) => t(s.origin), text: true },
      ],
    }));
}
