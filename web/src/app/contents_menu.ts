// The table of contents: every panel under its view, behind a button at the top of the page.

import { h } from "../core/dom";
import { t } from "../core/language";
import type { Entry } from "./frame";

/** The menu of a page; `go` brings an element into view. Hidden where there is nothing to choose among. */
export function contentsMenu(entries: Entry[], main: HTMLElement, go: (id: string) => void): HTMLElement {
  const menu = h("details", { class: "menu", hidden: entries.length < 2 });
  const link = (id: string, title: string) => h("a", { href: `#${id}`, onclick: (e: Event) => {
    e.preventDefault();
    menu.open = false;
    go(id);
  } }, title);
  const items = entries.map((entry) => {
    const panels = [...main.querySelectorAll<HTMLElement>(`[id="${entry.id}"] section.panel[id]`)];
    const inside = panels.map((panel) => ({ id: panel.id, title: panel.querySelector("h3")?.textContent ?? "" })).filter((panel) => panel.title);
    return h("li", {}, link(entry.id, entry.title), inside.length ? h("ul", {}, inside.map((panel) => h("li", {}, link(panel.id, panel.title)))) : null);
  });
  menu.append(h("summary", { "aria-label": t("Contents"), title: t("Contents") }, "☰"), h("ul", { class: "menu-list" }, items));
  const close = (e: Event) => {
    if (!menu.isConnected) return removeEventListener("pointerdown", close);
    if (!menu.contains(e.target as Node)) menu.open = false;
  };
  addEventListener("pointerdown", close);
  menu.addEventListener("keydown", (e) => {
    if (e.key !== "Escape" || !menu.open) return;
    e.stopPropagation();
    menu.open = false;
    menu.querySelector("summary")?.focus();
  });
  return menu;
}
