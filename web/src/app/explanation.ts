// The page of one explanation, and of a book of several.

import { drawBlock } from "../blocks";
import { type Child, h } from "../core/dom";
import type { Book, Explanation, PageData } from "../core/document";
import { said, t } from "../core/language";
import { frame } from "./frame";

/** Draw one explanation into the page. */
export function drawExplanation(place: HTMLElement, data: PageData, relanguage: () => void): void {
  const explanation = data.explanation as Explanation & { gpuscope_version: string };
  const around = frame(place, relanguage, explanation.gpuscope_version);
  around.main.append(...parts(explanation));
  around.contents(explanation.sections.map((section, i) => ({ id: `section-${i}`, title: said(section.title) })));
}

/** Draw a book: its chapters in the margin, one of them at a time. */
export function drawBook(place: HTMLElement, data: PageData, relanguage: () => void): void {
  const book = data.book as Book & { gpuscope_version: string };
  const around = frame(place, relanguage, book.gpuscope_version);
  const chapter = h("div", { class: "chapter" });
  const list = h("nav", { class: "chapters", "aria-label": t("Chapters") });
  const open = () => {
    const key = decodeURIComponent(location.hash.slice(1));
    const at = Math.max(0, book.chapters.findIndex((c) => c.key === key));
    const chosen = book.chapters[at] as Explanation;
    list.replaceChildren(h("ol", {}, book.chapters.map((c, i) =>
      h("li", {}, h("a", { href: `#${encodeURIComponent(c.key)}`, "aria-current": i === at ? "page" : null }, said(c.title))))));
    const next = book.chapters[at + 1];
    chapter.replaceChildren(...parts(chosen), next ? h("p", { class: "next" }, h("a", { href: `#${encodeURIComponent(next.key)}` }, t("Next: {title}", { title: said(next.title) }))) : "");
    scrollTo({ top: 0 });
  };
  onhashchange = open;
  around.main.append(h("header", { class: "book" }, h("h1", {}, said(book.title)), book.about ? h("p", { class: "about" }, said(book.about)) : null), h("div", { class: "book-body" }, list, chapter));
  open();
}

function parts(explanation: Explanation): HTMLElement[] {
  const sections = explanation.sections.map((section, i) =>
    h("section", { class: "panel", id: `section-${i}`, "aria-labelledby": `section-${i}-title` },
      h("h2", { id: `section-${i}-title` }, said(section.title)), section.blocks.map(drawBlock)));
  return [h("header", { class: "explained" }, h("h1", {}, said(explanation.title)), explanation.summary.map((words, i) => h("p", { class: i ? "" : "lead" }, said(words)))), ...sections, ...rest(explanation)];
}

function rest({ commands, sources, assumptions }: Explanation): HTMLElement[] {
  const list = (title: string, items: Child[]) => (items.length ? h("section", { class: "panel small" }, h("h2", {}, title), h("ul", {}, items.map((item) => h("li", {}, item)))) : null);
  return [
    list(t("Type this next"), commands.map((command) => h("code", { class: "command" }, command))),
    list(t("Assumptions"), assumptions.map(said)),
    list(t("Sources"), sources.map((source) => (typeof source === "string" ? source : said(source)))),
  ].filter((part) => part !== null);
}
