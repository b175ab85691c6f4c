// Boxes and the flows between them; the steps of an algorithm one by one.

import type { DiagramBlock, DiagramLink, DiagramNode } from "../core/document";
import { h, svg, tipped } from "../core/dom";
import { onResize } from "../core/drawing";
import { byteRate, percent } from "../core/format";
import { said, t } from "../core/language";
import { asTable } from "../core/panel";
import { figure } from "./figure";

/** Narrower, and the texts do not fit beside the boxes: the picture scrolls instead. */
const LEAST = 720;

const LETTER = 6.9, LINE = 15;

let serial = 0;

export function diagram(block: DiagramBlock): HTMLElement {
  const place = h("div", { class: "diagram", tabindex: "0", role: "group", "aria-label": said(block.title) });
  const id = `arrow-${(serial += 1)}`;
  let step = block.steps.length ? 0 : -1;
  const draw = () => place.replaceChildren(picture(block, step, id, Math.max(place.clientWidth || 800, LEAST)));
  const caption = h("p", { class: "step", "aria-live": "polite" });
  const move = (to: number) => {
    step = Math.max(0, Math.min(block.steps.length - 1, to));
    caption.textContent = t("Step {n} of {all}: {what}", { n: step + 1, all: block.steps.length, what: said(block.steps[step]) });
    draw();
  };
  const tools = block.steps.length ? h("div", { class: "tools" }, h("button", { type: "button", onclick: () => move(step - 1) }, t("Back")), h("button", { type: "button", onclick: () => move(step + 1) }, t("Next step")), caption) : null;
  if (tools) move(0);
  onResize(place, draw);
  return figure("diagram-block", block.title, block.note, place, tools, asTable(() => flows(block)));
}

function picture(block: DiagramBlock, step: number, id: string, width: number): SVGElement {
  const height = Math.max(220, Math.min(width * 0.55, 460));
  const at = new Map(block.nodes.map((node) => [node.key, node]));
  const visible = block.links.filter((link) => link.step === null || link.step === step);
  const most = Math.max(...block.links.map((link) => link.bytes_per_s ?? 0), 1);
  const marker = svg("marker", { id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 13, markerHeight: 13, markerUnits: "userSpaceOnUse", orient: "auto-start-reverse" }, svg("path", { d: "M0 0L8 4L0 8z", fill: "context-stroke" }));
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": said(block.title) }, svg("defs", {}, marker),
    visible.map((link) => flow(link, at, { width, height, most, id })), block.nodes.map((node) => box(node, width, height)));
}

/** Where the line between two boxes leaves a box. */
export function edge(from: DiagramNode, to: DiagramNode, width: number, height: number): [number, number] {
  const x = from.x * width, y = from.y * height, dx = to.x * width - x, dy = to.y * height - y;
  const halfWidth = (from.width * width) / 2 + 3, halfHeight = (from.height * height) / 2 + 3;
  const scale = Math.min(dx ? halfWidth / Math.abs(dx) : Infinity, dy ? halfHeight / Math.abs(dy) : Infinity, 1);
  return [x + dx * scale, y + dy * scale];
}

function flow(link: DiagramLink, at: Map<string, DiagramNode>, picture: { width: number; height: number; most: number; id: string }): SVGElement | null {
  const a = at.get(link.a), b = at.get(link.b);
  if (!a || !b) return null;
  const [x1, y1] = edge(a, b, picture.width, picture.height), [x2, y2] = edge(b, a, picture.width, picture.height);
  const share = link.bytes_per_s !== null ? Math.sqrt(link.bytes_per_s / picture.most) : 0.2;
  const line = svg("line", { x1, y1, x2, y2, class: link.narrowest ? "flow narrowest" : "flow", "stroke-width": 1.5 + 7 * share, "marker-end": link.directed ? `url(#${picture.id})` : null });
  const text = [link.label ? said(link.label) : "", link.bytes_per_s !== null ? byteRate(link.bytes_per_s) : ""].filter(Boolean).join(", ");
  const flat = Math.abs(x2 - x1) > Math.abs(y2 - y1);
  const parts = flat ? wrapped(text, Math.abs(x2 - x1)) : [text];
  const label = svg("text", { x: (x1 + x2) / 2, y: (y1 + y2) / 2 - 8 - (flat ? 4 * share : 0) - (parts.length - 1) * LINE, class: link.narrowest ? "flow-label narrowest" : "flow-label" }, stacked(parts, (x1 + x2) / 2));
  return tipped(svg("g", {}, line, label), text || `${said(a.label)} → ${said(b.label)}`, [limitText(link), link.narrowest ? t("the narrowest") : null]);
}

const limitText = (link: DiagramLink): string | null =>
  link.limit_bytes_per_s === null ? null : link.bytes_per_s === null ? t("can carry {rate}", { rate: byteRate(link.limit_bytes_per_s) }) : t("{share} of {rate}", { share: percent(link.bytes_per_s / link.limit_bytes_per_s), rate: byteRate(link.limit_bytes_per_s) });

function box(node: DiagramNode, width: number, height: number): SVGElement {
  const w = node.width * width, tall = node.height * height, x = node.x * width - w / 2, y = node.y * height - tall / 2;
  const parts = node.cells ? [said(node.label)] : wrapped(said(node.label), w - 10, Math.max(1, Math.floor(tall / LINE)));
  const label = svg("text", { x: node.x * width, y: node.cells ? y + 14 : node.y * height - ((parts.length - 1) * LINE) / 2, class: "node-label" }, stacked(parts, node.x * width));
  const group = svg("g", { class: `node node-${node.kind.replaceAll(" ", "-")}` }, svg("rect", { x, y, width: w, height: tall, rx: 8 }), cells(node, x, y + 22, w, tall - 28), label);
  return tipped(group, said(node.label), [node.detail ? said(node.detail) : null]);
}

/** A text in lines that are about as wide as there is room; broken at blanks only. */
export function wrapped(text: string, room: number, most = 3): string[] {
  const wide = (part: string) => [...part].reduce((sum, letter) => sum + (letter > "\u2e80" ? 1.8 : 1) * LETTER, 0);
  const found: string[] = [];
  for (const piece of text.split(" ")) {
    const last = found[found.length - 1];
    if (last !== undefined && (wide(`${last} ${piece}`) <= room || found.length >= most)) found[found.length - 1] = `${last} ${piece}`;
    else found.push(piece);
  }
  return found;
}

const stacked = (parts: string[], x: number): (SVGElement | string)[] => (parts.length < 2 ? [parts[0] ?? ""] : parts.map((part, i) => svg("tspan", { x, dy: i ? LINE : 0 }, part)));

/** Small cells inside a box, one for each multiprocessor. */
function cells(node: DiagramNode, x: number, y: number, width: number, height: number): SVGElement[] {
  if (!node.cells || width <= 12 || height <= 4) return [];
  const columns = Math.max(1, Math.ceil(Math.sqrt((node.cells * width) / height))), rows = Math.ceil(node.cells / columns);
  const w = (width - 12) / columns, tall = height / rows;
  return Array.from({ length: node.cells }, (_, i) => svg("rect", { class: "cell", x: x + 6 + (i % columns) * w, y: y + Math.floor(i / columns) * tall, width: w * 0.78, height: tall * 0.78 }));
}

function flows(block: DiagramBlock): HTMLElement {
  const name = new Map(block.nodes.map((node) => [node.key, said(node.label)]));
  return h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, [t("from"), t("to"), t("flow"), t("limit"), block.steps.length ? t("step") : null].filter((x) => x !== null).map((x) => h("th", { scope: "col" }, x)))),
    h("tbody", {}, block.links.map((link) => h("tr", { class: link.narrowest ? "marked" : null }, h("th", { scope: "row" }, name.get(link.a)), h("td", { class: "text" }, name.get(link.b)),
      h("td", {}, [link.label ? said(link.label) : "", link.bytes_per_s !== null ? byteRate(link.bytes_per_s) : ""].filter(Boolean).join(", ")), h("td", {}, link.limit_bytes_per_s !== null ? byteRate(link.limit_bytes_per_s) : ""), block.steps.length ? h("td", {}, link.step === null ? t("always") : String(link.step + 1)) : null)))));
}
