// Parts of cells and sentences that the panels of this view share.

import { type Child, h } from "../../core/dom";
import { percent } from "../../core/format";
import { t, text } from "../../core/language";
import { shortName } from "./symbol";

/** A small bar with its figure behind it; `share` of its full width. */
export const barCell = (share: number, colour: string, text: string): Child => [
  h("span", { class: "cellbar", "aria-hidden": "true" }, h("i", { style: { width: `${Math.max(0, Math.min(100, share * 100))}%`, background: colour } })),
  h("span", { class: "after" }, text)];

/** A coloured square before a word. */
export const swatched = (colour: string, text: Child): Child => h("span", { class: "tm-swatched" }, h("i", { style: { background: colour }, "aria-hidden": "true" }), text);

/** A part of a step in percent; nothing where the step is not known. */
export const ofStep = (seconds: number, step_s: number): string => (step_s > 0 ? percent(seconds / step_s) : "");

/** What the machine itself needs between two pieces of work has no name: "-" says that nobody is at fault. */
const NOBODY = new Set(["launch gap", "launch latency", "handing over", "waiting by chance"]);

const OTHER = text("other places");

/** The name of what was at fault, or why it has none. */
export const placeName = (name: string, kind: string): string =>
  name ? (name === OTHER ? t(name) : shortName(name)) : NOBODY.has(kind) ? "-" : t("not recorded");

/** A long name that may be cut; whole on hover. */
export const named = (name: string, whole = name): HTMLElement => h("span", { class: "tm-name", title: whole }, name);

/** A heading within a panel. */
export const sub = (title: string): HTMLElement => h("h4", { class: "tm-sub" }, title);
