// The frame of a block that is a figure: title, picture, note, and the figures as a table.

import { type Child, h } from "../core/dom";
import type { Words } from "../core/document";
import { said } from "../core/language";

/** A figure with its title above and its note below. */
export const figure = (sort: string, title: Words | null, note: Words | null, ...children: Child[]): HTMLElement =>
  h("figure", { class: `block ${sort}` }, title ? h("figcaption", {}, said(title)) : null, children, note ? h("p", { class: "note" }, said(note)) : null);
