// The frame of every page: header with navigation, language and theme; footer.

import { type Child, h, hideTip } from "../core/dom";
import { currentLanguage, t } from "../core/language";
import { isDark, onTheme, setTheme } from "../core/theme";

export interface Entry { id: string; title: string }

export interface Frame {
  /** The page's main element. */
  main: HTMLElement;
  /** Put the navigation's entries. */
  contents(entries: Entry[], current?: string): void;
  /** Mark the entry that is being read. */
  mark(id: string): void;
}

/** Build the frame into the page; `relanguage` is called when the reader switches the language. */
export function frame(page: HTMLElement, relanguage: () => void, version: string): Frame {
  hideTip();
  const zh = currentLanguage() === "zh";
  document.documentElement.lang = zh ? "zh-CN" : "en";
  const nav = h("nav", { "aria-label": t("Contents") });
  const theme = h("button", { type: "button", id: "theme", onclick: () => setTheme(isDark() ? "light" : "dark", true) });
  const name = () => { theme.textContent = isDark() ? t("Light") : t("Dark"); };
  name();
  const end = onTheme(() => { if (theme.isConnected) name(); else end(); });
  const language = h("button", { type: "button", id: "language", lang: zh ? "en" : "zh-CN", onclick: relanguage }, zh ? "English" : "中文");
  const main = h("main", { id: "main", tabindex: "-1" });
  page.replaceChildren(
    h("a", { class: "skip", href: "#main" }, t("Skip to the content")),
    h("header", { class: "top" }, h("div", { class: "inner" }, brand(), nav, h("span", { class: "switches" }, language, theme))),
    main,
    h("footer", {}, t("Written by gpuscope {version}. The data of this page is in it, as JSON.", { version })),
  );
  const links = new Map<string, HTMLElement>();
  const mark = (id: string) => links.forEach((link, key) => { if (key === id) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current"); });
  return {
    main, mark,
    contents(entries, current) {
      links.clear();
      nav.replaceChildren(...entries.map((entry) => {
        const link = h("a", { href: `#${entry.id}` }, entry.title);
        links.set(entry.id, link);
        return link;
      }));
      if (current) mark(current);
    },
  };
}

function brand(): Child {
  const shape = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  shape.setAttribute("viewBox", "0 0 16 16");
  shape.setAttribute("aria-hidden", "true");
  shape.innerHTML = '<rect width="16" height="16" rx="4"/><path d="M3 11h2V7H3zm4 0h2V4H7zm4 0h2V9h-2z"/>';
  return h("span", { class: "brand" }, shape, "gpuscope");
}
