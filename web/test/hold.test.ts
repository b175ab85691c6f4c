// @vitest-environment jsdom
// What was asked for stays in view while panels around it grow, until the reader moves.

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { hold } from "../src/app/travel";

let grow: () => void = () => undefined;
let watching = 0;

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("ResizeObserver", class {
    constructor(draw: () => void) { grow = () => { if (watching) draw(); }; }
    observe() { watching += 1; }
    disconnect() { watching = 0; }
  });
});
afterEach(() => { vi.useRealTimers(); vi.unstubAllGlobals(); watching = 0; });

describe("a panel that was asked for", () => {
  const held = () => {
    const panel = document.createElement("section");
    panel.scrollIntoView = vi.fn();
    hold(panel, document.body);
    return panel;
  };
  it("is brought back when others grow", () => {
    const panel = held();
    grow();
    expect(panel.scrollIntoView).toHaveBeenCalledTimes(1);
  });
  it("is let go when the reader scrolls, presses or types", () => {
    for (const kind of ["wheel", "touchstart", "pointerdown", "keydown"]) {
      const panel = held();
      dispatchEvent(new Event(kind));
      grow();
      expect(panel.scrollIntoView).not.toHaveBeenCalled();
    }
  });
  it("is let go after a while", () => {
    const panel = held();
    vi.advanceTimersByTime(5000);
    grow();
    expect(panel.scrollIntoView).not.toHaveBeenCalled();
  });
});
