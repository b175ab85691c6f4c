// A chosen stretch of time: where it goes by family and by the account, and which unit is narrowest in it.

import { classColour, familyColour, roleColour } from "../../core/colours";
import type { BarsBlock } from "../../core/document";
import { type Child, h } from "../../core/dom";
import { percent, time } from "../../core/format";
import { said, t, word } from "../../core/language";
import { DEVICE_KINDS, type Model } from "../../core/model";
import type { ReportPage } from "../../core/page";
import { means, unitName } from "../resources/units";
import { sharesOf } from "./account_shares";
import { familyOf } from "./belongs";
import { lengthOf, union } from "./intervals";
import { mainRank } from "./window";

/** An amount of time with its name. */
export interface Part { key: string; seconds: number; colour: string; label: string }

/** Device events of a rank as far as they lie in a stretch: row and length in nanoseconds. */
function clipped(model: Model, from: number, to: number, rank: number): [number, number, number][] {
  const tl = model.run.timeline;
  if (!tl) return [];
  return model.eventsWhere((i) => tl.events.kind[i] < DEVICE_KINDS && tl.lanes[tl.events.lane[i]].rank === rank && model.start[i] < to && model.end[i] > from)
    .map((i) => [i, Math.max(from, model.start[i]), Math.min(to, model.end[i])]);
}

const sorted = (sums: Map<string, number>, label: (key: string) => string, colour: (key: string) => string): Part[] =>
  [...sums].map(([key, seconds]) => ({ key, seconds, label: label(key), colour: colour(key) })).sort((a, b) => b.seconds - a.seconds);

/** Device time of a stretch by kernel family; what runs beside each other counts each. */
export function families(model: Model, from: number, to: number, rank: number): Part[] {
  const sums = new Map<string, number>(), tl = model.run.timeline;
  if (tl) for (const [i, a, b] of clipped(model, from, to, rank)) sums.set(familyOf(tl, i), (sums.get(familyOf(tl, i)) ?? 0) + (b - a) * 1e-9);
  return sorted(sums, word, familyColour);
}

/** The account of a stretch: its events' terms, and the time in which nothing ran as idle. */
export function accountOf(page: ReportPage, from: number, to: number, rank: number): Part[] {
  const { model, run } = page, events = clipped(model, from, to, rank), sums = new Map<string, number>();
  const busy = lengthOf(union(events.map(([, a, b]): [number, number] => [a, b]))), all = events.reduce((sum, [, a, b]) => sum + b - a, 0);
  // Where several run at once their time is shared, so that nothing counts twice.
  const scale = all > 0 ? busy / all : 0;
  for (const [i, a, b] of events) for (const [key, share] of sharesOf(model, i)) sums.set(key, (sums.get(key) ?? 0) + (b - a) * share * scale * 1e-9);
  if (to - from > busy) sums.set("idle", (to - from - busy) * 1e-9);
  const block = run.account_block as BarsBlock | null | undefined, keys = run.account_keys ?? [];
  const bar = (key: string) => block?.bars[keys.indexOf(key)];
  const label = (key: string) => { const found = bar(key)?.label; return found && typeof found === "object" ? said(found) : word(key); };
  const role = (key: string) => bar(key)?.parts[0]?.role;
  return sorted(sums, label, (key) => (role(key) ? roleColour(role(key) as string) : key === "idle" ? classColour("idle") : familyColour(key)));
}

const rows = (title: string, parts: Part[], whole_s: number): HTMLElement | null => (parts.length ? h("div", {}, h("h4", {}, title), h("ul", { class: "tm-parts" }, parts.slice(0, 9).map((part) =>
  h("li", {}, h("i", { class: "swatch", style: { "--part": part.colour }, "aria-hidden": "true" }), h("span", { class: "what" }, part.label),
    h("span", { class: "tm-track", "aria-hidden": "true" }, h("i", { style: { width: `${Math.min(1, part.seconds / whole_s) * 100}%`, "--part": part.colour } })), h("b", {}, time(part.seconds)), h("span", { class: "share" }, percent(part.seconds / whole_s)))))) : null);

/** What is told of a chosen stretch: its families, its account, its narrowest unit. */
export function stretchParts(page: ReportPage, [from, to]: [number, number]): Child {
  const { run, model } = page, tl = run.timeline;
  if (!tl) return null;
  const rank = run.use?.rank ?? mainRank(tl), whole_s = (to - from) * 1e-9, inside = run.use && from < run.use.end_ns && to > run.use.start_ns;
  const shares = inside && run.use ? means(run.use, from, to).flatMap((m) => (m.share === null || m.series.key === "power" || m.series.key === "sm" ? [] : [{ key: m.series.key, share: m.share }])) : [];
  const most = shares.reduce((best, one) => (one.share > best.share ? one : best), { key: null as (typeof shares)[number]["key"] | null, share: 0 });
  return [
    most.key ? h("p", { class: "tm-narrowest" }, t("Narrowest here: {name}, {share} of what it can do.", { name: unitName(most.key, run.device?.compute_unit_label), share: percent(most.share) })) : null,
    h("div", { class: "tm-stretch" }, rows(t("by family"), families(model, from, to, rank), whole_s), rows(t("its account"), accountOf(page, from, to, rank), whole_s)),
  ];
}
