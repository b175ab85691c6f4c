// Small parts that the panels of this view share: bars in cells, switches, definitions.

import { type Child, h } from "../../core/dom";
import { percent } from "../../core/format";
import { t } from "../../core/language";

/** A small bar with its figure behind it. */
export const bar = (share: number, colour: string, text: string): HTMLElement =>
  h("span", { class: "bar-cell" }, h("span", { class: "track" }, h("i", { style: { width: `${Math.max(0, Math.min(1, share || 0)) * 100}%`, background: colour } })), h("span", { class: "after" }, text));

/** A bar of two parts: what is needed at least, and what is more than that. */
export const gapBar = (least: number, whole: number, most: number): HTMLElement =>
  h("span", { class: "track two" }, h("i", { style: { width: `${Math.min(1, least / most) * 100}%`, background: "var(--good)" } }), h("i", { class: "gap", style: { width: `${Math.max(0, Math.min(1, whole / most) - Math.min(1, least / most)) * 100}%` } }));

/** A switch between a few choices. */
export function chips<Key extends string>(label: string, choices: readonly (readonly [Key, string])[], first: Key, choose: (key: Key) => void): HTMLElement | null {
  if (choices.length < 2) return null;
  const buttons = choices.map(([key, name]) => h("button", {
    type: "button", class: "chip", "aria-pressed": String(key === first),
    onclick: (e: Event) => {
      for (const button of buttons) button.setAttribute("aria-pressed", String(button === e.currentTarget));
      choose(key);
    },
  }, name));
  return h("span", { class: "chips", role: "group", "aria-label": label }, buttons);
}

/** A name with its figure; null figures are left out. */
export const fact = (name: string, value: Child, note?: Child): HTMLElement | null =>
  value === null || value === undefined || value === "" ? null : h("div", {}, h("dt", {}, name), h("dd", {}, value, note ? h("span", { class: "dim" }, " ", note) : null));

/** A share as text, marked where much is lost. */
export const loss = (share: number): HTMLElement => h("span", { class: share > 0.25 ? "lost" : share > 0.1 ? "some" : null }, percent(share));

/** Sentences after each other: with spaces where the language has them. */
export const sentences = (parts: readonly (string | null | false | undefined)[]): string =>
  parts.filter(Boolean).join(t("{first} {second}").replace(/\{\w+\}/g, ""));
