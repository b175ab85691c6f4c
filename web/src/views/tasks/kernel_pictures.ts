// A kernel's figures as small pictures: what its time is made of, its traffic, its intensity.

import type { KernelRow, Run } from "../../core/document";
import { type Child, h, svg } from "../../core/dom";
import { digits, flops, percent, quantity, ratio, size, time } from "../../core/format";
import { t } from "../../core/language";
import { roleColour } from "../../core/colours";
import { sentences } from "./bits";
import { ideal } from "./groups";

interface Line { label: string; value: number; colour: string; note?: string; shown?: string }

/** Bars on one scale. */
function bars(title: string, about: string, lines: Line[], shown: (value: number) => string): HTMLElement | null {
  const most = Math.max(...lines.map((line) => line.value));
  if (!(most > 0)) return null;
  return h("div", { class: "mini" }, h("h4", {}, title), h("dl", { class: "mini-bars" }, lines.map((line) => [
    h("dt", {}, line.label), h("dd", {}, h("span", { class: "track" }, h("i", { style: { width: `${(line.value / most) * 100}%`, background: line.colour } })),
      h("span", { class: "figure-text" }, line.shown ?? shown(line.value), line.note ? h("span", { class: "dim" }, ` ${line.note}`) : null)),
  ])), about ? h("p", { class: "dim" }, about) : null);
}

/** Arithmetic alone, memory alone, and what neither explains. */
export function timeParts(run: Run, kernel: KernelRow, each_s: number): HTMLElement | null {
  if (kernel.limiter === "unknown") return null;
  const { compute_s, memory_s, duration_s } = kernel;
  const longer = Math.max(compute_s, memory_s), rest = Math.max(0, duration_s - longer);
  const measured = run.origin === "measured" && kernel.origin !== "measured";
  const best = ideal(run, kernel), floor = Math.max(best.compute_s ?? 0, best.memory_s ?? 0);
  const share = (value: number) => `(${percent(value / duration_s)})`;
  const lines: Line[] = [
    ...(measured ? [{ label: t("measured"), value: each_s, colour: "var(--ink)" }] : []),
    { label: measured ? t("the model expects") : t("the kernel"), value: duration_s, colour: "var(--accent)", note: kernel.high_s > kernel.low_s ? `${time(kernel.low_s)} – ${time(kernel.high_s)}` : "" },
    { label: t("arithmetic alone"), value: compute_s, colour: roleColour("compute"), note: share(compute_s) },
    { label: t("memory alone"), value: memory_s, colour: roleColour("memory"), note: share(memory_s) },
    { label: t("neither: launch, latency, filling and draining"), value: rest, colour: roleColour("launch"), note: share(rest) },
    ...(floor > 0 ? [{ label: t("best possible by the datasheet"), value: floor, colour: "var(--good)", note: share(floor) }] : []),
  ];
  return bars(t("What one launch takes"), t("Arithmetic and memory traffic run at the same time: the longer of the two counts, and what overlaps nothing comes on top."), lines.filter((line) => line.value > 0), time);
}

/** Bytes that cross device memory against the least that must. */
export function traffic(kernel: KernelRow): HTMLElement | null {
  const moved = kernel.read_bytes + kernel.written_bytes;
  if (!(moved > 0)) return null;
  const kept = kernel.least_bytes > 0 && moved < kernel.least_bytes * 0.995;
  const about = !(kernel.least_bytes > 0) ? "" : kept ? t("Less than every input and output once: part of it is still in the L2 cache from the operator before.")
    : moved > kernel.least_bytes * 1.05 ? t("Blocks read the same data again: {ratio} of the least possible.", { ratio: ratio(moved / kernel.least_bytes) }) : t("Every byte crosses once, as few as can be.");
  return bars(t("Device memory traffic of one launch"), about, [
    { label: t("read"), value: kernel.read_bytes, colour: roleColour("memory") },
    { label: t("written"), value: kernel.written_bytes, colour: roleColour("copy") },
    ...(kernel.least_bytes > 0 ? [{ label: t("least possible"), value: kernel.least_bytes, colour: "var(--good)" }] : []),
  ].filter((line) => line.value > 0), size);
}

const X0 = 8, X1 = 392;

/** Arithmetic intensity against the ridge, on a logarithmic scale. */
export function intensity(run: Run, kernel: KernelRow): HTMLElement | null {
  const roof = run.analysis.roofline, peak = roof?.peak_flops_per_s[kernel.dtype], rate = roof?.memory_bandwidth_bytes_per_s;
  const moved = kernel.read_bytes + kernel.written_bytes;
  if (!peak || !rate || !(kernel.flops > 0) || !(moved > 0)) return null;
  const ridge = peak / rate, own = kernel.flops / moved;
  const low = Math.log10(Math.min(own, ridge, 0.5)), high = Math.log10(Math.max(own, ridge) * 6);
  const x = (value: number) => X0 + ((Math.log10(value) - low) / (high - low)) * (X1 - X0);
  const picture = svg("svg", { class: "plot intensity", viewBox: "0 0 400 76", role: "img", "aria-label": `${quantity(own, "flop/byte")}, ${t("ridge")} ${quantity(ridge, "flop/byte")}` },
    svg("rect", { x: X0, y: 30, width: x(ridge) - X0, height: 16, style: { fill: roleColour("memory"), opacity: ".28" } }),
    svg("rect", { x: x(ridge), y: 30, width: X1 - x(ridge), height: 16, style: { fill: roleColour("compute"), opacity: ".28" } }),
    ...regions(x(ridge)),
    svg("line", { x1: x(ridge), x2: x(ridge), y1: 26, y2: 50, style: { stroke: "var(--ink)" } }),
    svg("text", { x: clamp(x(ridge)), y: 64, "text-anchor": "middle" }, `${t("ridge")} ${digits(ridge)}`),
    svg("path", { d: `M${x(own)},29 l-6,-10 h12 z`, style: { fill: "var(--ink)" } }),
    svg("text", { x: clamp(x(own)), y: 14, "text-anchor": "middle", class: "strong" }, quantity(own, "flop/byte")));
  const side = own >= ridge ? t("Right of the ridge: with enough parallel work, arithmetic can set the pace.") : t("Left of the ridge: memory cannot feed the arithmetic units; even a perfect kernel reaches {rate} of the peak.", { rate: percent(own / ridge) });
  return h("div", { class: "mini" }, h("h4", {}, t("Arithmetic intensity")), picture, h("p", { class: "dim" }, sentences([t("{flops} for {bytes} moved.", { flops: flops(kernel.flops), bytes: size(moved) }), side])));
}

/** Names of the two sides, where there is room for them. */
function regions(ridge: number): SVGElement[] {
  const side = (from: number, to: number, name: string) => (to - from > name.length * 7 ? [svg("text", { x: (from + to) / 2, y: 42, "text-anchor": "middle", class: "side" }, name)] : []);
  return [...side(X0, ridge, t("memory sets the pace")), ...side(ridge, X1, t("arithmetic does"))];
}

const clamp = (x: number): number => Math.min(X1 - 44, Math.max(X0 + 44, x));

/** The limiter in a sentence for people. */
export function limiterSentence(limiter: string): Child {
  const sentences: Record<string, string> = {
    tensor_core: t("The tensor cores set its time: memory delivers faster than they multiply."),
    compute: t("The ordinary arithmetic units set its time; the tensor cores do not take part."),
    memory: t("Device memory sets its time: the arithmetic units wait for bytes."),
    l2: t("The L2 cache sets its time: the tiles ask it for more than it delivers."),
    issue: t("Issuing instructions sets its time: address arithmetic, conversions and loads keep the schedulers busy, while memory has room."),
    latency: t("Waiting sets its time: too little work is under way at once to keep memory or arithmetic busy."),
    launch: t("It is so short that starting and ending a kernel takes most of it: fewer, larger kernels are what helps."),
    link: t("The link between devices or to the host sets its time."),
    host: t("The host sets its time."),
  };
  return sentences[limiter] ?? null;
}
