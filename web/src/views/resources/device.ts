// The device itself: its parts, and what flowed between them on average over the step.

import { h, type Child } from "../../core/dom";
import { onResize } from "../../core/drawing";
import type { DeviceFacts, UseSeries } from "../../core/document";
import { byteRate, count, flopRate, hertz, percent, power, quantity, size } from "../../core/format";
import { t } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { patchChildren } from "../../core/patch";
import { asTable, panel, table } from "../../core/panel";
import { instantAt } from "../../live/instant";
import { nowParts, shownAt } from "../../live/now";
import { doing } from "../../live/words";
import { OF_THE_STEP, drawDevice } from "./device_picture";
import { narrowest } from "./device_layout";
import { phaseTable } from "./use_tables";
import { average, limitOrigin, plural, share, total, unitName, value } from "./units";

export function devicePanel(page: ReportPage): HTMLElement | null {
  const device = page.run.device;
  if (!device) return null;
  const place = h("div", { class: "device" }), words = h("p", { class: "res-verdict" }), now = h("div", { class: "now" }), { cursor } = page;
  let width = 300;
  const draw = (at: number | null) => {
    const instant = at === null ? null : instantAt(page.model, at);
    patchChildren(place, [drawDevice(page, device, width, instant ? shownAt(page, instant) : OF_THE_STEP)]);
    patchChildren(words, instant ? [doing(page, instant)] : verdict(page));
    patchChildren(now, instant ? nowParts(page, instant) : []);
  };
  onResize(place, () => { width = Math.max(300, place.clientWidth); draw(cursor?.at ?? null); });
  cursor?.onSeen(place, draw);
  return panel("device", t("The device itself"),
    `${t("{name}. Each way is as thick as what it can carry (logarithmic), filled as far as it was used on average over the step.", { name: device.name })} ${squares(page, device)}${cursor ? ` ${t("With the play head at a moment: what runs then; links, copies and power are means of the short stretch around it.")}` : ""}`,
    place, words, now, notes(page), facts(device), asTable(() => [flows(page), page.run.use ? phaseTable(page, page.run.use) : null]));
}

/** What the figures rest on, where that is not plain. */
function notes(page: ReportPage): HTMLElement | null {
  const { use } = page.run;
  if (!use) return null;
  const unknown = use.series.some((s) => s.key === "memory") ? "" : t("What the kernels compute and move is not known: the recording holds no shapes, or no model covers them.");
  const spread = use.series.some((s) => s.key === "power" && s.origin === "computed") ? t("Work is spread evenly over each kernel's time; power follows from the work, so it can pass the limit for a moment where the average holds it.") : "";
  return unknown || spread ? h("p", { class: "res-note" }, [unknown, spread].filter(Boolean).join(" ")) : null;
}

/** What the squares of the picture are. */
function squares(page: ReportPage, device: DeviceFacts): string {
  const units = { units: plural(device.compute_unit_label) };
  return page.run.use?.series.some((s) => s.key === "sm")
    ? t("Squares are {units}; the filled ones had work.", units)
    : t("Squares are {units}; how many of them had work is not available.", units);
}

/** What was used most, in a sentence. */
function verdict(page: ReportPage): string[] {
  const found = narrowest(page.run.use);
  if (!found) return [];
  const name = unitName(found.series.key, page.run.device?.compute_unit_label, page.run.device?.memory_type);
  const parts = { name, share: percent(found.share) };
  // Matrix units rarely pass 70 % of their peak: data and power do not let them.
  const text = found.share >= (found.series.key === "tensor" ? 0.6 : 0.7) ? t("Most used: {name}, to {share} on average. More of it would make the step faster.", parts)
    : found.share >= 0.35 ? t("Most used: {name}, to {share} on average. For stretches of the step it sets the pace, elsewhere something else does.", parts)
      : t("Nothing is used much on average; {name} most, to {share}. The step waits for something else: launches, latency, other ranks or the host.", parts);
  return [text, atLimit(page)];
}

/** Said where the power limit holds the clock down. */
function atLimit(page: ReportPage): string {
  const watts = page.run.use?.series.find((s) => s.key === "power"), mean = watts ? average(watts) : 0;
  if (!watts?.limit || mean < 0.95 * watts.limit) return "";
  return " " + t("Power is at its limit ({watts} of {limit}): the clock is held down.", { watts: power(mean), limit: power(watts.limit) });
}

function facts(d: DeviceFacts): HTMLElement {
  const origin = (name: string): Child => (d.origins[name] ? h("span", { class: "dim" }, ` ${t(d.origins[name])}`) : null);
  const row = (label: string, shown: Child, name = ""): Child => (shown === null ? null : h("div", {}, h("dt", {}, label), h("dd", {}, shown, origin(name))));
  const byRate = new Map<string, string[]>();
  for (const p of d.peaks) byRate.set(flopRate(p.flops_per_s), [...(byRate.get(flopRate(p.flops_per_s)) ?? []), p.tensor ? p.dtype : `${p.dtype} (${t("vector lanes")})`]);
  const link = (label: string, l: DeviceFacts["host_link"]): Child => (l?.bandwidth_bytes_per_s ? h("div", {}, h("dt", {}, label), h("dd", {}, `${l.name}, ${byteRate(l.bandwidth_bytes_per_s)}`, h("span", { class: "dim" }, ` ${t(l.origin)}`))) : null);
  return h("details", { class: "device-facts" }, h("summary", {}, t("What it can do, and how that is known")), h("dl", { class: "facts" },
    row(plural(d.compute_unit_label), d.compute_units === null ? null : `${d.compute_units}${d.clock_hz ? ` · ${hertz(d.clock_hz)}` : ""}`, "compute_units"),
    [...byRate].map(([rate, dtypes]) => row(dtypes.join(", "), rate)),
    row(t("one {unit}, each clock", { unit: d.compute_unit_label }), d.tensor_flops_per_clock === null ? null : `${count(d.tensor_flops_per_clock)} FLOP`),
    row(t("shared memory of one {unit}", { unit: d.compute_unit_label }), d.shared_bytes_per_unit === null ? null : size(d.shared_bytes_per_unit), "shared_bytes_per_unit"),
    row(t("L1 and shared memory"), d.l1_bytes_per_unit === null ? null : size(d.l1_bytes_per_unit), "l1_bytes_per_unit"),
    row(t("registers of one {unit}", { unit: d.compute_unit_label }), d.registers_per_unit === null ? null : quantity(d.registers_per_unit, ""), "registers_per_unit"),
    row(t("L2 cache"), d.l2_bytes === null ? null : size(d.l2_bytes), "l2_bytes"),
    row(t("L2 to all {unit}s", { unit: d.compute_unit_label }), d.l2_bytes_per_s === null ? null : byteRate(d.l2_bytes_per_s), "l2_bytes_per_s"),
    row(t("L2 to one {unit}", { unit: d.compute_unit_label }), d.l2_unit_bytes_per_s === null ? null : byteRate(d.l2_unit_bytes_per_s), "l2_unit_bytes_per_s"),
    row(d.memory_type ?? t("device memory"), `${size(d.memory_bytes)}, ${byteRate(d.memory_bandwidth_bytes_per_s)}`, "memory_bandwidth_bytes_per_s"),
    row(t("for a program"), size(d.memory_usable_bytes), "memory_usable_bytes"),
    row(t("of that bandwidth, reading reaches"), d.read_share === null ? null : percent(d.read_share), "read_share"),
    row(t("of that bandwidth, writing reaches"), d.write_share === null ? null : percent(d.write_share), "write_share"),
    link(t("to the host"), d.host_link), link(t("to its neighbours"), d.scale_up), link(t("to other nodes"), d.scale_out),
    row(t("copy engines"), d.copy_engines === null ? null : String(d.copy_engines), "copy_engines"),
    row(t("power limit"), d.power_limit_w === null ? null : power(d.power_limit_w), "power_limit_w"),
    row(t("at rest"), d.power_idle_w === null ? null : power(d.power_idle_w), "power_idle_w")),
  h("p", { class: "res-note" }, d.calibration === "same device" ? t("Constants were measured on this very device.") : d.calibrated_on ? t("Constants were measured on {device} and carried over.", { device: d.calibrated_on }) : t("No measured constants apply.")));
}

function flows(page: ReportPage): HTMLElement {
  const use = page.run.use, rows: UseSeries[] = use?.series ?? [];
  if (!rows.length) return h("p", {}, t("What flowed is not known: no kernel's work is."));
  return table<UseSeries>({
    caption: t("The device itself"), rows, columns: [
      { title: t("unit"), cell: (s) => unitName(s.key, page.run.device?.compute_unit_label), text: true },
      { title: t("in the step"), cell: (s) => (s.is_least ? "≥ " : "") + total(s) },
      { title: t("on average"), cell: (s) => value(s, average(s)), sort: (s) => average(s) },
      { title: t("limit"), cell: (s) => `${value(s, s.limit)}${limitOrigin(s) ? ` (${limitOrigin(s)})` : ""}` },
      { title: t("of the limit"), cell: (s) => percent(share(s)), sort: (s) => share(s) },
    ],
  });
}
