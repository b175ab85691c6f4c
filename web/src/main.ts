// The page begins here: reads its data, and draws the sort of page that the data is for.

import "./style/page.css";
import { drawBook, drawExplanation } from "./app/explanation";
import { drawClaims } from "./app/claims";
import { drawReport } from "./app/report";
import { DataError, readData } from "./core/data";
import type { PageData } from "./core/document";
import { h } from "./core/dom";
import { type Language, currentLanguage, setLanguage } from "./core/language";
import { startTheme } from "./core/theme";

const SORTS: Record<PageData["kind"], (place: HTMLElement, data: PageData, relanguage: () => void) => void> = {
  report: drawReport, explanation: drawExplanation, book: drawBook, claims: drawClaims,
};

async function start(): Promise<void> {
  const place = document.getElementById("page") as HTMLElement;
  startTheme();
  try {
    const data = await readData(document.getElementById("data")?.textContent ?? "");
    const draw = (language: Language) => {
      setLanguage(language, data.strings);
      SORTS[data.kind](place, data, () => draw(currentLanguage() === "zh" ? "en" : "zh"));
    };
    draw(data.lang === "zh" ? "zh" : "en");
  } catch (error) {
    const known = error instanceof DataError ? error : new DataError(`This page cannot be drawn: ${String(error)}`, `无法绘制此页面：${String(error)}`);
    place.replaceChildren(h("main", { class: "failed", role: "alert" }, h("h1", {}, "gpuscope"), h("p", {}, known.en), h("p", { lang: "zh-CN" }, known.zh)));
    if (!(error instanceof DataError)) throw error;
  }
  document.documentElement.dataset.ready = "true";
}

void start();
