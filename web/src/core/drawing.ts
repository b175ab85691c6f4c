// When things are drawn: late, to their width, and all at once for paper and for jumps across the page.

/** What is drawn when it comes near the window, by its place; such places carry `data-late`. */
const late = new WeakMap<Element, () => void>();
/** What is drawn to its width (`true`: although the width is the same); such places carry `data-fitted`. */
const fitted = new WeakMap<Element, (anyway: boolean) => void>();

/** Panels hold charts that are themselves drawn late; deeper than this nothing is nested. */
const MOST_ROUNDS = 8;

/** Run `draw` once, when the element comes near the window, or earlier where all is drawn. */
export function whenNear(element: HTMLElement, draw: () => void): void {
  if (typeof IntersectionObserver === "undefined") return draw();
  const observer = new IntersectionObserver(
    (entries) => {
      if (entries.some((entry) => entry.isIntersecting)) late.get(element)?.();
    },
    { rootMargin: "400px" },
  );
  element.dataset.late = "";
  late.set(element, () => {
    observer.disconnect();
    late.delete(element);
    delete element.dataset.late;
    draw();
  });
  observer.observe(element);
}

/** Draw when the element is first laid out, and again when its width changes. */
export function onResize(element: HTMLElement, draw: () => void): void {
  let width = 0;
  const fit = (anyway: boolean) => {
    const now = element.clientWidth;
    if (!now || (now === width && !anyway)) return;
    width = now;
    draw();
  };
  element.dataset.fitted = "";
  fitted.set(element, fit);
  new ResizeObserver(() => fit(false)).observe(element);
}

/**
 * Draw at once what would be drawn late: all of it, or what stands before an element or in it.
 * What is above an element has its height then, so that one can go to it.
 */
export function drawNow(until?: Element): void {
  for (let round = 0; round < MOST_ROUNDS; round++) {
    const due = [...document.querySelectorAll("[data-late]")].filter((element) => !(until && isAfter(element, until)));
    if (!due.length) break;
    for (const element of due) late.get(element)?.();
  }
  fitNow();
}

/** Whether an element comes after another one, and is no part of it. */
const isAfter = (element: Element, other: Element): boolean =>
  Boolean(other.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING) && !other.contains(element);

function fitNow(anyway = false): void {
  for (const element of document.querySelectorAll("[data-fitted]")) fitted.get(element)?.(anyway);
}

/** Draw everything, and at the paper's width, before the page is printed; back again afterwards. */
export function startPaper(): void {
  const root = document.documentElement;
  addEventListener("beforeprint", () => {
    drawNow();
    root.classList.add("on-paper");
    fitNow(true);
    shrink();
  });
  addEventListener("afterprint", () => {
    root.classList.remove("on-paper");
    document.querySelectorAll<HTMLElement>("[data-shrunk]").forEach((element) => {
      element.style.zoom = "";
      delete element.dataset.shrunk;
    });
    fitNow(true);
  });
}

/** What scrolls sideways on a screen cannot on paper: it is made smaller until it fits. */
function shrink(): void {
  for (const box of document.querySelectorAll<HTMLElement>(".scroll, .diagram")) {
    const wide = box.firstElementChild as HTMLElement | null;
    if (!wide || box.scrollWidth <= box.clientWidth + 1) continue;
    wide.style.zoom = String(Math.floor((box.clientWidth / box.scrollWidth) * 1000) / 1000);
    wide.dataset.shrunk = "true";
  }
}

/** Whether the page is being printed. */
export const onPaper = (): boolean => document.documentElement.classList.contains("on-paper");
