// Two languages: the English text is the key; Chinese comes from the page's tables and the data's.

import { CHINESE } from "../text/zh";
import type { Words } from "./document";

export type Language = "en" | "zh";

let language: Language = "en";
let fromData: Record<string, string> = {};

/** Set the language, and the texts that the data brings. */
export function setLanguage(chosen: Language, strings?: Record<string, string>): void {
  language = chosen;
  if (strings) fromData = strings;
}

export const currentLanguage = (): Language => language;

/** The text in the reader's language, with {names} filled in. */
export function t(text: string, values: Record<string, string | number> = {}): string {
  const found = language === "zh" ? (CHINESE[text] ?? fromData[text] ?? text) : text;
  return found.replace(/\{(\w+)\}/g, (whole, name: string) => (name in values ? String(values[name]) : whole));
}

/** Words that the data brings in both languages. */
export const said = (words: Words | null | undefined): string => (words ? words[language] : "");

/** A stable word of the data, such as "tensor_core". */
export const word = (name: string): string => t(name.replaceAll("_", " "));

/** A time class; "idle: " and its cause are two texts. */
export function classLabel(label: string): string {
  const [kind, cause] = label.split(": ") as [string, string | undefined];
  const whole = t(label);
  if (!cause || whole !== label) return whole;
  return t(kind) + t(": ") + t(cause);
}

/** A sentence of a run that is finished in English, with its Chinese in the run's own table. */
export const sentence = (text: string, chinese: Record<string, string>): string =>
  language === "zh" ? (chinese[text] ?? t(text)) : text;

export const operatorLabel = (name: string): string => name.replace(/^(aten|gpuscope)::/, "");
