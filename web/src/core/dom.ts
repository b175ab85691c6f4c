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

/** What a tooltip tells, and what a press does, by element: both can change while the element stays. */
const tips = new WeakMap<Element, [string, (string | null | false | undefined)[]]>();
const acts = new WeakMap<Element, (event: Event) => void>();

/** Which of the two an element has. */
export const behaviourOf = (element: Element): string => `${tips.has(element)} ${acts.has(element)}`;

/** Give an element the tooltip and the act of another one that has the same sorts. */
export function takeBehaviour(element: Element, from: Element): void {
  const tip = tips.get(from), act = acts.get(from);
  if (tip) tips.set(element, tip);
  if (act) acts.set(element, act);
}

/** Let an element show a tooltip under the pointer and on focus. */
export function tipped<E extends Element>(element: E, title: string, lines: (string | null | false | undefined)[]): E {
  tips.set(element, [title, lines]);
  const tell = (x: number, y: number) => showTip(x, y, ...(tips.get(element) ?? [title, lines]));
  element.addEventListener("pointermove", (e) => tell((e as PointerEvent).clientX, (e as PointerEvent).clientY));
  element.addEventListener("pointerleave", hideTip);
  element.addEventListener("focus", () => {
    const box = element.getBoundingClientRect();
    tell(box.right, box.top);
  });
  element.addEventListener("blur", hideTip);
  return element;
}

/** Call `act` on click, Enter and Space; the element can be focused and is announced as a button. */
export function pressable<E extends Element>(element: E, act: (event: Event) => void, role: string | null = "button"): E {
  if (role) element.setAttribute("role", role);
  element.setAttribute("tabindex", "0");
  acts.set(element, act);
  element.addEventListener("click", (e) => acts.get(element)?.(e));
  element.addEventListener("keydown", (e) => {
    const key = (e as KeyboardEvent).key;
    if (key === "Enter" || key === " ") {
      e.preventDefault();
      acts.get(element)?.(e);
    }
  });
  return element;
}
