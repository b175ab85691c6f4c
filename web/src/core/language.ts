// The reader's language: the English text is the key; translations come with the page.

import type { Words } from "./document";

/** English -> another language, by the language's code. */
export type Texts = Record<string, Record<string, string>>;

let language = "en";
let texts: Texts = {};

/** Take the translations that the page brings, beside those that are there. */
export function addTexts(more: Texts): void {
  for (const [code, found] of Object.entries(more)) texts[code] = { ...texts[code], ...found };
}

/** Set the language, and perhaps translations of it. */
export function setLanguage(chosen: string, strings: Record<string, string> = {}): void {
  language = chosen;
  addTexts({ [chosen]: strings });
}

export const currentLanguage = (): string => language;

/** The languages of the page, English first. */
export const languages = (): string[] => ["en", ...Object.keys(texts).filter((code) => code !== "en").sort()];

/** The language after one, and after the last the first. */
export const nextLanguage = (code: string): string => languages()[(languages().indexOf(code) + 1) % languages().length] as string;

/** The text in a language, with {names} filled in. */
export function inLanguage(code: string, text: string, values: Record<string, string | number> = {}): string {
  const found = texts[code]?.[text] ?? text;
  const filled = found.replace(/\{(\w+)\}/g, (whole, name: string) => (name in values ? `\u0002${values[name]}\u0003` : whole));
  // Chinese characters stand apart from Latin names and figures (document/language.py: filled).
  return filled.replace(/(?<=[\u4e00-\u9fff])\u0002(?=[A-Za-z0-9])|(?<=[A-Za-z0-9%])\u0003(?=[\u4e00-\u9fff])/g, " ").replace(/[\u0002\u0003]/g, "");
}

/** The text in the reader's language, with {names} filled in. */
export const t = (text: string, values: Record<string, string | number> = {}): string => inLanguage(language, text, values);

/** Marks a text that is shown elsewhere through `t(variable)`, so that it is found for translation. */
export const text = (english: string): string => english;

/** Words that the data brings in every language. */
export const said = (words: Words | null | undefined): string => (words ? (words[language] ?? words.en) : "");

/** Kinds of events that only the data names, so that they are found for translation. */
export const KINDS = [text("sync"), text("memcpy")];

/** A stable word of the data, such as "tensor_core". */
export const word = (name: string): string => t(name.replaceAll("_", " "));

/** A time class; "idle: " and its cause are two texts. */
export function classLabel(label: string): string {
  const [kind, cause] = label.split(": ") as [string, string | undefined];
  const whole = t(label);
  if (!cause || whole !== label) return whole;
  return t(kind) + t(": ") + t(cause);
}

export const operatorLabel = (name: string): string => name.replace(/^(aten|gpuscope)::/, "");
