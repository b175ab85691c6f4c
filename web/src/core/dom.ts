// Elements, tooltips and keys: what every panel uses.

export type Child = Node | string | number | null | undefined | false | Child[];
type Attributes = Record<string, unknown>;

/** Make an HTML element; `on...` attributes are listeners, children may be nested or empty. */
export function h<K extends keyof HTMLElementTagNameMap>(tag: K, attributes?: Attributes, ...children: Child[]): HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), attributes, children);
}

/** Make an SVG element. */
export function svg<K extends keyof SVGElementTagNameMap>(tag: K, attributes?: Attributes, ...children: Child[]): SVGElementTagNameMap[K] {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill<E extends Element>(element: E, attributes: Attributes = {}, children: Child[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on") && typeof value === "function") element.addEventListener(name.slice(2), value as EventListener);
    else if (name === "style" && typeof value === "object") {
      for (const [key, rule] of Object.entries(value as Record<string, string>)) {
        if (key.startsWith("--")) (element as unknown as HTMLElement).style.setProperty(key, rule);
        else (element as unknown as HTMLElement).style[key as "color"] = rule;
      }
    } else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(element: Element, children: Child[]): void {
  for (const child of children) {
    if (Array.isArray(child)) append(element, child);
    else if (child !== null && child !== undefined && child !== false) element.append(child instanceof Node ? child : String(child));
  }
}

/** A value of the style sheet, for canvases. */
export const css = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

let tip: HTMLElement | null = null;

function tipElement(): HTMLElement {
  tip ??= document.body.appendChild(h("div", { id: "tip", role: "status", hidden: true }));
  return tip;
}

/** Show a tooltip beside the pointer: a title and lines. */
export function showTip(x: number, y: number, title: string, lines: (string | null | false | undefined)[]): void {
  const element = tipElement();
  element.replaceChildren(h("b", {}, title), ...lines.filter(Boolean).map((line) => h("div", {}, line as string)));
  element.hidden = false;
  const box = element.getBoundingClientRect();
  const left = x + 14 + box.width > innerWidth ? x - box.width - 14 : x + 14;
  const top = y + 16 + box.height > innerHeight ? y - box.height - 12 : y + 16;
  element.style.left = `${Math.max(4, left)}px`;
  element.style.top = `${Math.max(4, top)}px`;
}

export function hideTip(): void {
  if (tip) tip.hidden = true;
}

/** Let an element show a tooltip under the pointer and on focus. */
export function tipped<E extends Element>(element: E, title: string, lines: (string | null | false | undefined)[]): E {
  element.addEventListener("pointermove", (e) => showTip((e as PointerEvent).clientX, (e as PointerEvent).clientY, title, lines));
  element.addEventListener("pointerleave", hideTip);
  element.addEventListener("focus", () => {
    const box = element.getBoundingClientRect();
    showTip(box.right, box.top, title, lines);
  });
  element.addEventListener("blur", hideTip);
  return element;
}

/** Call `act` on click, Enter and Space; the element can be focused and is announced as a button. */
export function pressable<E extends Element>(element: E, act: (event: Event) => void, role: string | null = "button"): E {
  if (role) element.setAttribute("role", role);
  element.setAttribute("tabindex", "0");
  element.addEventListener("click", act);
  element.addEventListener("keydown", (e) => {
    const key = (e as KeyboardEvent).key;
    if (key === "Enter" || key === " ") {
      e.preventDefault();
      act(e);
    }
  });
  return element;
}
