// The frame of every page: header with navigation, language and theme; footer.

import { type Child, h, hideTip } from "../core/dom";
import { currentLanguage, inLanguage, languages, nextLanguage, t, text } from "../core/language";
import { isDark, onTheme, setTheme } from "../core/theme";
import { contentsMenu } from "./contents_menu";
import { goTo, goToHash } from "./travel";

/** Every language says its own name for it. */
const OWN_NAME = text("English");

export interface Entry { id: string; title: string }

export interface Frame {
  /** The page's main element. */
  main: HTMLElement;
  /** Put the navigation's entries, once what they name is on the page. */
  contents(entries: Entry[]): void;
}

/** Whether the address has been gone to: once, not again when the language changes. */
let arrived = false;

/** Build the frame into the page; `relanguage` is called when the reader switches the language. */
export function frame(page: HTMLElement, relanguage: () => void, version: string): Frame {
  hideTip();
  const other = nextLanguage(currentLanguage());
  document.documentElement.lang = currentLanguage();
  const nav = h("nav", { "aria-label": t("Contents") });
  const theme = h("button", { type: "button", id: "theme", onclick: () => setTheme(isDark() ? "light" : "dark", true) });
  const name = () => { theme.textContent = isDark() ? t("Light") : t("Dark"); };
  name();
  const end = onTheme(() => { if (theme.isConnected) name(); else end(); });
  const language = h("button", { type: "button", id: "language", lang: other, hidden: languages().length < 2, onclick: relanguage }, inLanguage(other, OWN_NAME));
  const menu = h("span", { class: "menu-place" });
  const main = h("main", { id: "main", tabindex: "-1" });
  page.replaceChildren(
    h("a", { class: "skip", href: "#main" }, t("Skip to the content")),
    h("header", { class: "top" }, h("div", { class: "inner" }, brand(), menu, nav, h("span", { class: "switches" }, language, theme))),
    main,
    h("footer", {}, t("Written by gpuscope {version}. The data of this page is in it, as JSON.", { version })),
  );
  return {
    main,
    contents(entries) {
      const go = (id: string) => {
        const target = document.getElementById(id);
        if (!target) return;
        history.pushState(null, "", `#${id}`);
        goTo(target, main);
      };
      const links = new Map(entries.map((entry) => [entry.id, h("a", { href: `#${entry.id}`, onclick: (e: Event) => { e.preventDefault(); go(entry.id); } }, entry.title)]));
      nav.replaceChildren(...links.values());
      menu.replaceChildren(contentsMenu(entries, main, go));
      follow(nav, links);
      if (!arrived) goToHash(main);
      arrived = true;
    },
  };
}

/** Mark the entry that is being read, and keep it in sight where the entries do not fit. */
function follow(nav: HTMLElement, links: Map<string, HTMLElement>): void {
  const mark = (id: string) => links.forEach((link, key) => {
    if (key !== id) return link.removeAttribute("aria-current");
    link.setAttribute("aria-current", "true");
    nav.scrollTo?.({ left: link.offsetLeft - nav.offsetLeft - (nav.clientWidth - link.offsetWidth) / 2 });
  });
  const [first] = links.keys();
  if (first) mark(first);
  if (typeof IntersectionObserver === "undefined") return;
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) mark(entry.target.id);
  }, { rootMargin: "-20% 0px -70% 0px" });
  for (const id of links.keys()) {
    const target = document.getElementById(id);
    if (target) observer.observe(target);
  }
}

function brand(): Child {
  const shape = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  shape.setAttribute("viewBox", "0 0 16 16");
  shape.setAttribute("aria-hidden", "true");
  shape.innerHTML = '<rect width="16" height="16" rx="4"/><path d="M3 11h2V7H3zm4 0h2V4H7zm4 0h2V9h-2z"/>';
  return h("span", { class: "brand" }, shape, h("span", {}, "gpuscope"));
}
