// Every text of the page has a Chinese one, and both have the same places to fill in.

import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { classLabel, setLanguage, t } from "../src/core/language";
import { CHINESE } from "../src/text/zh";

function sources(folder: string): string[] {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? sources(path) : path.endsWith(".ts") ? [path] : [];
  });
}

/** Texts in t("...") and t(a ? "..." : "..."), by file. */
function wanted(): [string, string][] {
  return sources("src").filter((path) => !path.includes("/text/")).flatMap((path) => {
    const code = readFileSync(path, "utf8");
    return [...code.matchAll(/\bt\(\s*"((?:[^"\\]|\\.)*)"/g)].map((m): [string, string] => [JSON.parse(`"${m[1]}"`) as string, path]);
  });
}

/** Texts whose Chinese comes with the data (words of the analysis, from Python's tables). */
const FROM_DATA = new Set(["predicted", "measured"]);
const places = (text: string) => [...text.matchAll(/\{(\w+)\}/g)].map((m) => m[1]).sort();

describe("texts", () => {
  it("are all there in Chinese", () => {
    const missing = wanted().filter(([text]) => !(text in CHINESE) && !FROM_DATA.has(text) && /[a-z]{2}/i.test(text));
    expect(missing).toEqual([]);
  });
  it("have the same places in both languages", () => {
    for (const [en, zh] of Object.entries(CHINESE)) expect([en, places(zh)]).toEqual([en, places(en)]);
  });
  it("are filled in", () => {
    setLanguage("zh");
    expect(t("Show all {n}", { n: 7 })).toBe("显示全部 7 项");
    setLanguage("en");
    expect(t("Show all {n}", { n: 7 })).toBe("Show all 7");
    expect(t("{unknown} stays")).toBe("{unknown} stays");
  });
  it("join a time class and its cause", () => {
    setLanguage("zh", { idle: "空闲", "launch gap": "启动间隙" });
    expect(classLabel("idle: launch gap")).toContain("启动间隙");
    setLanguage("en");
  });
});
