// A moment, part by part: the device's units, the running kernel's wave, memory by owner, all ranks.

import { CATEGORIES, familyColour, roleColour } from "../core/colours";
import type { Timeline } from "../core/document";
import { type Child, h } from "../core/dom";
import { count, percent, size } from "../core/format";
import { t, word } from "../core/language";
import type { Model } from "../core/model";
import type { ReportPage } from "../core/page";
import type { Shown } from "../views/resources/device_picture";
import { type Filling, dealt } from "../views/tasks/waves";
import { familyOf } from "../views/time/belongs";
import { heldBy } from "../views/time/held";
import { bubblesOf } from "../views/time/losses";
import { legOf } from "../views/time/strip_data";
import { shortName } from "../views/time/symbol";
import { deviceRanks } from "../views/time/window";
import { type Instant, instantAt, memoryAt, readingAt } from "./instant";
import { fillingOf } from "./filling";
import { doing, placeOf, progress } from "./words";

/** Which wave a kernel is in, were all equally long, and its blocks on each multiprocessor. */
export function waveAt(model: Model, event: number, at: number): { filling: Filling; wave: number; on: number[] } | null {
  const filling = event < 0 ? null : fillingOf(model, event);
  if (!filling) return null;
  const passed = (at - (model.start[event] as number)) / Math.max(1, (model.end[event] as number) - (model.start[event] as number));
  const wave = Math.min(filling.waves, 1 + Math.floor(passed * filling.waves));
  return { filling, wave, on: dealt(wave === filling.waves ? filling.last : filling.slots, filling.units, filling.resident) };
}

/** What the device's picture shows at a moment. */
export function shownAt(page: ReportPage, instant: Instant): Shown {
  const { model, run } = page, tl = run.timeline as Timeline, wave = waveAt(model, instant.kernel, instant.at);
  const units = run.device?.compute_units ?? 1, moved: Shown["moved"] = {};
  for (const event of instant.running) {
    const leg = legOf(tl, event), way = leg === "in" ? "h2d" : leg === "return" ? "d2h" : leg === "communication" ? "link" : null;
    if (way) moved[way] ??= (instant.at - (model.start[event] as number)) / Math.max(1, tl.events.duration_ns[event] as number);
  }
  const cells = wave ? { full: wave.on.map((n) => n / wave.filling.resident), colour: familyColour(familyOf(tl, instant.kernel)), told: waveWords(wave) }
    : instant.kernel < 0 ? { full: new Array<number>(units).fill(0), colour: "", told: t("No kernel runs.") } : null;
  return { read: (series) => readingAt(run, series, instant), cells, moved };
}

const waveWords = ({ filling, wave, on }: { filling: Filling; wave: number; on: number[] }): string =>
  t("wave {wave} of {waves}: {blocks} blocks on {busy} of {units}", { wave: count(wave), waves: count(filling.waves), blocks: count(on.reduce((a, b) => a + b, 0)), busy: count(on.filter((n) => n > 0).length), units: count(filling.units) });

/** The task, the memory and the ranks at a moment. */
export function nowParts(page: ReportPage, instant: Instant): HTMLElement[] {
  return [task(page, instant), memory(page, instant), ranks(page, instant)].filter((part) => part !== null);
}

const row = (name: string, value: Child): Child => (value === "" || value === null ? null : h("div", {}, h("dt", {}, name), h("dd", {}, value)));

function task(page: ReportPage, instant: Instant): HTMLElement {
  const tl = page.run.timeline as Timeline, event = instant.running[0], wave = waveAt(page.model, instant.kernel, instant.at);
  const place = event === undefined ? null : placeOf(tl, event), host = instant.host.map((i) => shortName(tl.names[tl.events.name[i] as number] ?? "")).join(t(", "));
  return h("div", { class: "now-task" }, h("h4", {}, t("Now")), h("dl", {},
    event === undefined ? row(t("device"), doing(page, instant)) : [row(t("kernel"), shortName(tl.names[tl.events.name[event] as number] ?? "")), row(t("so far"), progress(tl, event, instant.at))],
    wave ? row(t("thread blocks"), waveWords(wave)) : null,
    place ? [row(t("operator"), place.operator), row(t("module"), place.module), row(t("phase"), place.phase), row(t("line"), place.site)] : null,
    row(t("host"), host || t("nothing"))));
}

function memory(page: ReportPage, instant: Instant): HTMLElement | null {
  const held = memoryAt(page.run, instant.at), peak = page.run.analysis.memory?.peak_bytes;
  if (!held || !peak) return null;
  const shown = held.filter((part) => part.bytes > 0), sum = shown.reduce((total, part) => total + part.bytes, 0);
  const colour = (name: string) => CATEGORIES[name] ?? roleColour("shared");
  return h("div", { class: "now-memory" }, h("h4", {}, `${t("Memory")}${t(": ")}${size(sum)}`),
    h("div", { class: "now-stack", role: "img", "aria-label": t("{share} of the peak", { share: percent(sum / peak) }) }, shown.map((part) => h("i", { style: { width: `${(part.bytes / peak) * 100}%`, background: colour(part.name) } }))),
    h("ul", { class: "legend" }, shown.map((part) => h("li", {}, h("i", { class: "swatch", style: { background: colour(part.name) } }), word(part.name), h("b", {}, size(part.bytes))))));
}

/** What every rank does at the moment, where there are several. */
function ranks(page: ReportPage, instant: Instant): HTMLElement | null {
  const tl = page.run.timeline as Timeline, all = deviceRanks(tl);
  if (all.length < 2) return null;
  return h("div", { class: "now-ranks" }, h("h4", {}, t("Ranks")), h("ul", {}, all.map((rank) => {
    const own = rank === instant.rank ? instant : instantAt(page.model, instant.at, rank), event = own?.running[0];
    return h("li", {}, h("i", { class: "swatch", style: { background: event === undefined ? "var(--idle)" : familyColour(familyOf(tl, event)) } }), h("b", {}, String(rank)), h("span", {}, [lossAt(page, rank, event, instant.at), doing(page, own)].filter(Boolean).join(" · ")));
  })));
}

/** What a rank loses at a moment, though something may run: it waits inside a collective, or its stage has no micro-batch. */
function lossAt({ model, run }: ReportPage, rank: number, event: number | undefined, at: number): string {
  const held = event === undefined ? null : heldBy(model, event), bubble = bubblesOf(run, rank);
  if (held && at < (model.start[event as number] as number) + held.wait_ns) return t("waits for rank {rank}", { rank: held.last });
  return bubble?.start_ns.some((start, i) => at >= start && at < start + (bubble.duration_ns[i] as number)) ? t("bubble") : "";
}
