// Making what stands in the page like what was drawn anew, without taking it away: a picture that
// changes with every frame costs what changed, and keeps focus and scroll.

import { behaviourOf, takeBehaviour } from "./dom";

/** Make the children of `place` like `next`, in their order; what is alike stays where it is. */
export function patchChildren(place: Element, next: readonly (Node | string)[]): void {
  const now = [...place.childNodes];
  next.forEach((wanted, i) => {
    const there = now[i], made = typeof wanted === "string" ? document.createTextNode(wanted) : wanted;
    if (!there) place.append(made);
    else if (!patch(there, made)) there.replaceWith(made);
  });
  now.slice(next.length).forEach((left) => left.remove());
}

/** Make a node like another; false where they are of different sorts, so that it must be replaced. */
function patch(now: Node, next: Node): boolean {
  if (now.nodeType !== next.nodeType || now.nodeName !== next.nodeName) return false;
  if (!(now instanceof Element && next instanceof Element)) {
    if (now.nodeValue !== next.nodeValue) now.nodeValue = next.nodeValue;
    return true;
  }
  if (behaviourOf(now) !== behaviourOf(next)) return false;
  takeBehaviour(now, next);
  for (let i = 0; i < next.attributes.length; i++) {
    const { name, value } = next.attributes[i] as Attr;
    if (now.getAttribute(name) !== value) set(now, name, value);
  }
  if (now.attributes.length > next.attributes.length) for (const { name } of [...now.attributes]) if (!next.hasAttribute(name)) now.removeAttribute(name);
  if (now.firstChild || next.firstChild) patchChildren(now, [...next.childNodes]);
  return true;
}

/** Set an attribute; a style as the page's policy allows it. */
function set(element: Element, name: string, value: string): void {
  if (name === "style") (element as HTMLElement | SVGElement).style.cssText = value;
  else element.setAttribute(name, value);
}

/** Say something else in an element that holds one text. */
export function say(element: Element, text: string): void {
  const { firstChild } = element;
  if (!firstChild) element.append(text);
  else if (firstChild.nodeValue !== text) firstChild.nodeValue = text;
}
