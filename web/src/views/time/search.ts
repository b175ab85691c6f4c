// Searching events by all that is known of them: matches are lit as one types, Enter goes from one to the next.

import { h } from "../../core/dom";
import { count, time } from "../../core/format";
import { t } from "../../core/language";
import { DEVICE_KINDS, type Model } from "../../core/model";
import type { ReportPage } from "../../core/page";

/** The search field of a timeline; `light` gets the matches (null: not searching), `go` the one to show. */
export function searchBox(page: ReportPage, light: (mask: Uint8Array | null) => void, go: (event: number) => void): HTMLElement {
  let events: number[] = [], at = -1;
  const told = h("span", { class: "dim told", "aria-live": "polite" });
  const choose = h("button", { type: "button", hidden: true, onclick: () => {
    page.selections.choose(page.model, "timeline", `“${field.value.trim()}”`, events);
    field.value = "";
    look();
  } }, t("choose them all"));
  const look = () => {
    const wanted = field.value.trim().toLowerCase(), mask = wanted ? matches(page.model, wanted) : null;
    events = [];
    if (mask) for (let i = 0; i < mask.length; i++) if (mask[i]) events.push(i);
    at = -1;
    told.textContent = wanted ? summary(page.model, events) : "";
    choose.hidden = events.length === 0;
    light(mask);
  };
  const next = (by: number) => {
    if (!events.length) return;
    at = (at + by + events.length) % events.length;
    go(events[at]);
    told.textContent = t("{i} of {n}", { i: at + 1, n: events.length });
  };
  let timer = 0;
  const field = h("input", { type: "search", placeholder: t("Search events"), title: t("Symbols, operators, modules, families, source lines"), "aria-label": t("Search events by symbol, operator, module or source line; Enter goes to the next"),
    oninput: () => { clearTimeout(timer); timer = window.setTimeout(look, 120); },
    onkeydown: (e: KeyboardEvent) => {
      if (e.key === "Enter") { e.preventDefault(); clearTimeout(timer); if (at < 0) look(); next(e.shiftKey ? -1 : 1); }
      if (e.key === "Escape" && field.value) { e.stopPropagation(); field.value = ""; look(); }
    } });
  return h("span", { class: "group search" }, field, told, choose);
}

/**
 * Which events a text (in small letters) is about: every word of it stands in the event's name, or in
 * the operator, module, phase, source line or kernel family that it belongs to.
 */
export function matches(model: Model, wanted: string): Uint8Array {
  const mask = new Uint8Array(model.count), tl = model.run.timeline;
  if (!tl) return mask;
  const words = wanted.split(/\s+/).filter(Boolean), step = tl.kinds.indexOf("step");
  const { names, modules, sites, columns } = tl.ops, { name, kind, op, kernel } = tl.events;
  // Each table is searched once, not each event: a bit a word, at most 31 of them.
  const found = (texts: readonly string[]): number[] => texts.map((text) => {
    const small = text.toLowerCase();
    return words.slice(0, 31).reduce((bits, word, i) => (small.includes(word) ? bits | (1 << i) : bits), 0);
  });
  const all = 2 ** Math.min(31, words.length) - 1;
  const byName = found(tl.names), byOperator = found(names), byModule = found(modules), bySite = found(sites ?? []);
  const phases = new Map([...new Set(columns.phase)].map((phase) => [phase, found([phase])[0] as number]));
  const ofOp = columns.name.map((n, o) => (byOperator[n] ?? 0) | (byModule[columns.module[o]] ?? 0) | (phases.get(columns.phase[o]) ?? 0) | (bySite[columns.site?.[o] ?? -1] ?? 0));
  const byKernel = found(tl.kernels.map((k) => k.kind));
  for (let i = 0; i < model.count; i++) {
    const bits = byName[name[i]] | (ofOp[op[i]] ?? 0) | (byKernel[kernel[i]] ?? 0);
    if (bits === all && all && kind[i] !== step) mask[i] = 1;
  }
  return mask;
}

function summary(model: Model, events: number[]): string {
  const tl = model.run.timeline;
  if (!tl || !events.length) return t("no event");
  let device_ns = 0;
  for (const i of events) if (tl.events.kind[i] < DEVICE_KINDS) device_ns += tl.events.duration_ns[i];
  return t("{n} events", { n: count(events.length) }) + (device_ns ? t(", ") + t("{time} on the device", { time: time(device_ns * 1e-9) }) : "");
}
