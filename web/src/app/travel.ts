// Going to a place of the page, and staying there while the page is still being drawn.

import { drawNow } from "../core/drawing";

const HELD_MS = 2000;

/** Bring an element to the top of the window. What is above it is drawn first: it would grow and push it away. */
export function goTo(element: HTMLElement, around: HTMLElement): void {
  drawNow(element);
  element.scrollIntoView({ block: "start" });
  hold(element, around);
}

/** Go to the element that the address names, where it names one. */
export function goToHash(around: HTMLElement): void {
  const asked = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (asked && around.contains(asked)) goTo(asked, around);
}

let letGo: () => void = () => undefined;

/** Keep an element in view until nothing around it has grown for a while, or until the reader moves. */
export function hold(element: HTMLElement, around: HTMLElement): void {
  letGo();
  if (typeof ResizeObserver === "undefined") return;
  let later = 0;
  const observer = new ResizeObserver(() => {
    element.scrollIntoView({ block: "start" });
    clearTimeout(later);
    later = window.setTimeout(end, HELD_MS);
  });
  const moves = ["wheel", "touchstart", "pointerdown", "keydown"];
  const end = () => {
    observer.disconnect();
    moves.forEach((kind) => removeEventListener(kind, end));
  };
  later = window.setTimeout(end, HELD_MS);
  letGo = end;
  moves.forEach((kind) => addEventListener(kind, end, { passive: true }));
  observer.observe(around);
}
