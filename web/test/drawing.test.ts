// @vitest-environment jsdom
// What is drawn late is drawn at once, in order, for paper and for jumps; what comes after a place can wait.

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { drawNow, onPaper, startPaper, whenNear } from "../src/core/drawing";

const never = class { observe() {} disconnect() {} };
beforeEach(() => { vi.stubGlobal("IntersectionObserver", never); vi.stubGlobal("ResizeObserver", never); });
afterEach(() => { vi.unstubAllGlobals(); document.body.replaceChildren(); });

/** Places on the page, each of which notes that it is drawn. */
function places(names: string[]): { drawn: string[]; at: Record<string, HTMLElement> } {
  const drawn: string[] = [], at: Record<string, HTMLElement> = {};
  for (const name of names) {
    const place = document.body.appendChild(document.createElement("div"));
    at[name] = place;
    whenNear(place, () => drawn.push(name));
  }
  return { drawn, at };
}

describe("what is drawn late", () => {
  it("is drawn up to a place and in it, not after it", () => {
    const { drawn, at } = places(["a", "b", "c"]);
    const inner = at.b.appendChild(document.createElement("div"));
    whenNear(inner, () => drawn.push("in b"));
    drawNow(at.b);
    expect(drawn).toEqual(["a", "b", "in b"]);
  });
  it("is drawn once", () => {
    const { drawn } = places(["a"]);
    drawNow();
    drawNow();
    expect(drawn).toEqual(["a"]);
  });
  it("is drawn with what it brings: charts within panels", () => {
    const { drawn, at } = places([]);
    const panel = document.body.appendChild(document.createElement("div"));
    whenNear(panel, () => whenNear(panel.appendChild(document.createElement("div")), () => drawn.push("chart")));
    drawNow();
    expect([drawn, Object.keys(at)]).toEqual([["chart"], []]);
  });
  it("is drawn before printing, and the page has the paper's width only then", () => {
    const { drawn } = places(["a"]);
    startPaper();
    dispatchEvent(new Event("beforeprint"));
    expect(drawn).toEqual(["a"]);
    expect(onPaper()).toBe(true);
    dispatchEvent(new Event("afterprint"));
    expect(onPaper()).toBe(false);
  });
});
