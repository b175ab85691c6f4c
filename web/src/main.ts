// The page begins here: reads its data, and draws the sort of page that the data is for.

import "./style/page.css";
import { drawBook, drawExplanation } from "./app/explanation";
import { drawClaims } from "./app/claims";
import { drawReport } from "./app/report";
import { DataError, readData, readTexts } from "./core/data";
import type { PageData } from "./core/document";
import { h } from "./core/dom";
import { addTexts, currentLanguage, inLanguage, languages, nextLanguage, setLanguage, text } from "./core/language";
import { startPaper } from "./core/drawing";
import { startTheme } from "./core/theme";

const SORTS: Record<PageData["kind"], (place: HTMLElement, data: PageData, relanguage: () => void) => void> = {
  report: drawReport, explanation: drawExplanation, book: drawBook, claims: drawClaims,
};

async function start(): Promise<void> {
  const place = document.getElementById("page") as HTMLElement;
  startTheme();
  startPaper();
  addTexts(readTexts(document.getElementById("texts")?.textContent ?? ""));
  try {
    const data = await readData(document.getElementById("data")?.textContent ?? "");
    addTexts(data.strings);
    const draw = (language: string) => {
      setLanguage(language);
      SORTS[data.kind](place, data, () => draw(nextLanguage(currentLanguage())));
    };
    draw(data.lang);
  } catch (error) {
    const known = error instanceof DataError ? error : new DataError(text("This page cannot be drawn: {error}"), { error: String(error) });
    place.replaceChildren(h("main", { class: "failed", role: "alert" }, h("h1", {}, "gpuscope"), languages().map((lang) => h("p", { lang }, inLanguage(lang, known.text, known.values)))));
    if (!(error instanceof DataError)) throw error;
  }
  document.documentElement.dataset.ready = "true";
}

void start();
