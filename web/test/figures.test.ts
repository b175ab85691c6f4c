// The page formats figures itself: it says the same as the terminal (gpuscope/views/units.py).
// figures.json is written and held by tests/views/test_figures_alike.py.

import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import * as format from "../src/core/format";
import { setLanguage } from "../src/core/language";

const known = JSON.parse(readFileSync("test/figures.json", "utf8")) as { values: number[]; shown: Record<string, string[]> };

describe("figures read as on the terminal", () => {
  setLanguage("en");
  it.each(Object.entries(known.shown))("%s", (name, shown) => {
    const show = (format as unknown as Record<string, (value: number) => string>)[name] as (value: number) => string;
    expect(known.values.map((value) => show(value))).toEqual(shown);
  });
});
