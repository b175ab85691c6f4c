// Texts in the reader's language, and that every text of the sources is in the list for translation.

import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { addTexts, classLabel, inLanguage, languages, nextLanguage, said, setLanguage, t } from "../src/core/language";
import { OWN } from "./texts";

function sources(folder: string): string[] {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? sources(path) : path.endsWith(".ts") ? [path] : [];
  });
}

/** What stands in each call of t(, up to the end of its first argument's beginning. */
const calls = sources("src").flatMap((path) => [...readFileSync(path, "utf8").matchAll(/(?<![\w.])t\(\s*([^]*?)[,)]/g)].map((m): [string, string] => [path, m[1] as string]));

describe("the list for translation", () => {
  it("has every text that stands in a call", () => {
    const literal = calls.filter(([, start]) => start.startsWith('"'));
    expect(literal.length).toBeGreaterThan(500);
    expect(literal.filter(([, start]) => !OWN.some((text) => JSON.stringify(text).startsWith(start)))).toEqual([]);
  });
  it("has the marked ones", () => expect(OWN).toEqual(expect.arrayContaining(["Story", "step time", "other places", "English"])));
  it("misses none: no call chooses between texts or puts one together", () => {
    const hidden = calls.filter(([, start]) => /^`|^[^"].*\?.*"/.test(start) && !/\?\? ""$/.test(start));
    expect(hidden).toEqual([]);
  });
});

describe("texts", () => {
  addTexts({ zh: { English: "中文", "Show all {n}": "显示全部 {n} 项", idle: "空闲", ": ": "：" } });
  it("are filled in", () => {
    setLanguage("zh", { "launch gap": "启动间隙" });
    expect(t("Show all {n}", { n: 7 })).toBe("显示全部 7 项");
    expect(classLabel("idle: launch gap")).toBe("空闲：启动间隙");
    expect(said({ en: "wave", zh: "波次" })).toBe("波次");
    expect(said({ en: "wave" })).toBe("wave");
    setLanguage("en");
    expect(t("Show all {n}", { n: 7 })).toBe("Show all 7");
    expect(t("{unknown} stays")).toBe("{unknown} stays");
  });
  it("come in the languages of the page, one after the other", () => {
    addTexts({ xx: { English: "Xx" } });
    expect(languages()).toEqual(["en", "xx", "zh"]);
    expect(["en", "xx", "zh"].map(nextLanguage)).toEqual(["xx", "zh", "en"]);
    expect(inLanguage("xx", "English")).toBe("Xx");
  });
});
