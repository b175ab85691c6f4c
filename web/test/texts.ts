// The page's own texts as Python gives them to it, in a language that brackets them.

import { readFileSync } from "node:fs";

/** Every text of the page, in English; written by tools/catalogue.py. */
export const OWN = JSON.parse(readFileSync("../src/gpuscope/views/page/texts.json", "utf8")) as string[];

export const BRACKETED: Record<string, string> = Object.fromEntries(OWN.map((text) => [text, `⟦${text}⟧`]));
