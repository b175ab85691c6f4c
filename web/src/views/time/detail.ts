// What is told of the event under the pointer, and of the chosen one.

import { h, hideTip, showTip } from "../../core/dom";
import { count, time } from "../../core/format";
import { t } from "../../core/language";
import { DEVICE_KINDS } from "../../core/model";
import type { ReportPage } from "../../core/page";
import { causeMeaning } from "./causes";
import { describe } from "./describe";
import { before } from "./draw";
import type { Selection } from "../../core/selection";
import type { Scene } from "./scene";
import { stretchParts } from "./stretch";
import { cutName, shortName } from "./symbol";

/** Show or hide the tooltip for a point of a scene of one run. */
export function hoverTip(scene: Scene, point: { x: number; y: number; clientX: number; clientY: number } | null, zero: number): void {
  const hit = point && scene.hit(point.x, point.y);
  if (!hit || !point) return hideTip();
  const show = (title: string, lines: string[]) => showTip(point.clientX, point.clientY, title, lines);
  const model = scene.model(hit.track.source), tl = model.run.timeline;
  if (!tl) return hideTip();
  const start = zero + (hit.track.source === 0 ? 0 : scene.sources[hit.track.source].offset - scene.sources[0].offset);
  if (hit.kind === "event") {
    const { title, facts } = describe(model, hit.event, start);
    return show(cutName(title), facts.slice(0, 8).map(([label, value]) => `${label}${t(": ")}${value}`));
  }
  if (hit.kind === "many") {
    const total = hit.events.reduce((sum, i) => sum + tl.events.duration_ns[i], 0);
    const longest = hit.events.reduce((a, b) => (tl.events.duration_ns[b] > tl.events.duration_ns[a] ? b : a));
    return show(t("{n} events here", { n: count(hit.events.length) }), [`${t("together")}${t(": ")}${time(total * 1e-9)}`,
      `${t("longest")}${t(": ")}${shortName(tl.names[tl.events.name[longest]])}${t(", ")}${time(tl.events.duration_ns[longest] * 1e-9)}`, t("Zoom in to tell them apart.")]);
  }
  if (hit.kind === "wait" && hit.track.gaps) {
    const gaps = hit.track.gaps, cause = gaps.causes[gaps.cause[hit.index]], what = gaps.names[gaps.what[hit.index]];
    return show(`${t("idle")}${t(": ")}${t(cause)}`, [time(gaps.duration_ns[hit.index] * 1e-9), what ? `${t("at fault")}${t(": ")}${shortName(what)}` : "", causeMeaning(cause)]);
  }
  if (hit.kind === "span" && hit.track.nest) {
    const { nest } = hit.track, { start: from, end: to } = hit.track.rows[0].spans;
    return show(nest.title(hit.index), [time((to[hit.index] - from[hit.index]) * 1e-9), t("{n} on the device", { n: count(nest.events(hit.index).length) })]);
  }
  const counter = hit.track.counter;
  if (hit.kind === "counter" && counter) {
    const at = before(counter.time, hit.time + scene.sources[hit.track.source].offset);
    return show(counter.name, [counter.told(at < 0 ? null : counter.value[at]), ...(counter.layers ?? []).filter((layer) => layer.own[at] > 0).map((layer) => `${layer.name}${t(": ")}${counter.told(layer.own[at])}`)]);
  }
  if (hit.kind !== "label" || hit.track.kind === "heading") return hideTip();
  const lane = tl.lanes[hit.track.lane];
  show(lane ? lane.name : hit.track.label, [
    hit.track.kind === "waits" ? t("Moments in which the device did nothing, by cause.") : "",
    hit.track.gaps?.left_out ? t("{n} short ones are left out, {time} together.", { n: count(hit.track.gaps.left_out), time: time(hit.track.gaps.left_out_ns * 1e-9) }) : "",
    hit.track.folded ? t("{n} deeper levels of calls are folded away.", { n: hit.track.folded }) : ""]);
}

/** The chosen event in full, a summary of several, or how to choose one. */
export function detailOf(page: ReportPage, selection: Selection | null, zero: number, zoom: () => void, step: (by: number) => void): HTMLElement[] {
  const event = selection?.event ?? null;
  if (selection && event === null) return several(page, selection);
  if (event === null) return [h("p", { class: "dim" }, t("Nothing selected. Click an event to see what it is, who launched it and what limits it."))];
  const { title, facts } = describe(page.model, event, zero);
  const button = (label: string, act: () => void) => h("button", { type: "button", onclick: act }, label);
  return [
    h("div", { class: "detail-head" }, h("b", {}, title), h("span", { class: "tools" }, button(t("Zoom to it"), zoom), button(`[ ${t("previous")}`, () => step(-1)), button(`${t("next")} ]`, () => step(1)))),
    h("dl", {}, facts.map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, value)))),
  ];
}

const MOST_NAMES = 6;

/** What several chosen events are, by the time that each name takes on the device, or on the host where nothing ran there. */
function several(page: ReportPage, selection: Selection): HTMLElement[] {
  const tl = page.run.timeline, device = tl ? selection.events.filter((i) => tl.events.kind[i] < DEVICE_KINDS) : [];
  const counted = device.length ? device : selection.events, by = new Map<string, { time_ns: number; count: number }>();
  if (tl) for (const i of counted) {
    const name = tl.names[tl.events.name[i]], row = by.get(name) ?? { time_ns: 0, count: 0 };
    row.time_ns += tl.events.duration_ns[i];
    row.count += 1;
    by.set(name, row);
  }
  const rows = [...by].sort((a, b) => b[1].time_ns - a[1].time_ns);
  const rest = rows.length > MOST_NAMES ? t("and {n} other names", { n: rows.length - MOST_NAMES }) : "";
  return [
    h("div", { class: "detail-head" }, h("b", {}, selection.title), h("span", { class: "dim" }, [t("{n} events", { n: count(selection.events.length) }), device.length ? t("{n} on the device", { n: count(device.length) }) : t("none on the device")].join(t(", ")))),
    h("dl", { class: "tm-names" }, rows.slice(0, MOST_NAMES).map(([name, row]) => h("div", {}, h("dt", { title: name }, shortName(name)), h("dd", {}, `${time(row.time_ns * 1e-9)} · ${count(row.count)}×`)))),
    rest ? h("p", { class: "dim" }, rest) : null,
    selection.range ? h("div", {}, stretchParts(page, selection.range)) : null,
  ].filter((part) => part !== null);
}
