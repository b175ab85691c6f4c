// Flows between ranks as curves on a circle and as a matrix of senders and receivers.

import type { Mesh } from "../../core/document";
import { h, hideTip, pressable, showTip, svg, tipped } from "../../core/dom";
import { size } from "../../core/format";
import { t } from "../../core/language";
import { onCircle, type Pair } from "./mesh_data";

export interface Picture {
  element: HTMLElement;
  /** Light these ranks and dim the others; null lights all alike. */
  lit(ranks: ReadonlySet<number> | null): void;
}

const figure = (title: string, picture: SVGElement): HTMLElement => h("figure", {}, h("figcaption", {}, title), picture);

/** Ranks on a circle; a curve's width is what goes both ways together. */
export function circle(mesh: Mesh, pairs: readonly Pair[], colour: (group: number) => string, choose: (rank: number) => void): Picture {
  const ranks = mesh.ranks.map((rank) => rank.rank), side = 360, places = onCircle(ranks.length, side / 2, 138);
  const at = new Map(ranks.map((rank, i) => [rank, places[i] as [number, number]]));
  const both = new Map<string, { a: number; b: number; there: number; back: number; group: number }>();
  for (const pair of pairs) {
    const [a, b] = pair.sender < pair.receiver ? [pair.sender, pair.receiver] : [pair.receiver, pair.sender];
    const own = both.get(`${a}-${b}`) ?? { a, b, there: 0, back: 0, group: pair.group };
    if (pair.sender === a) own.there += pair.bytes;
    else own.back += pair.bytes;
    both.set(`${a}-${b}`, own);
  }
  const most = Math.max(...[...both.values()].map((way) => way.there + way.back));
  const ways = [...both.values()].sort((a, b) => a.there + a.back - b.there - b.back).map((way) => {
    const [x1, y1] = at.get(way.a) as [number, number], [x2, y2] = at.get(way.b) as [number, number], c = side / 2;
    const bend = (v: number, w: number) => (v + w) / 2 + (c - (v + w) / 2) * 0.45;
    const path = svg("path", { d: `M${x1},${y1} Q${bend(x1, x2)},${bend(y1, y2)} ${x2},${y2}`, class: "way", style: { stroke: colour(way.group), strokeWidth: `${1.2 + (7 * (way.there + way.back)) / most}px` } });
    tipped(path, `${t("rank {rank}", { rank: way.a })} ↔ ${t("rank {rank}", { rank: way.b })}`, [`${way.a} → ${way.b}${t(": ")}${size(way.there)}`, `${way.b} → ${way.a}${t(": ")}${size(way.back)}`]);
    return { way, path };
  });
  const nodes = mesh.ranks.map((rank, i) => {
    const [x, y] = places[i] as [number, number];
    const node = pressable(svg("g", { class: `node${rank.recorded ? "" : " absent"}`, "aria-label": t("rank {rank}", { rank: rank.rank }) },
      svg("circle", { cx: x, cy: y, r: 17 }), svg("text", { x, y: y + 4.5, "text-anchor": "middle" }, String(rank.rank))), () => choose(rank.rank));
    tipped(node, t("rank {rank}", { rank: rank.rank }), [rank.sent_bytes === null ? null : `${t("sends at least")}${t(": ")}${size(rank.sent_bytes)}`]);
    return { rank: rank.rank, node };
  });
  const picture = svg("svg", { class: "plot mesh-circle", viewBox: `0 0 ${side} ${side}`, role: "group", "aria-label": t("Ranks and what goes between them") }, ...ways.map(({ path }) => path), ...nodes.map(({ node }) => node));
  return {
    element: figure(t("Between ranks, both ways together"), picture),
    lit(chosen) {
      for (const { way, path } of ways) path.classList.toggle("is-off", chosen !== null && !(chosen.has(way.a) || chosen.has(way.b)));
      for (const { rank, node } of nodes) node.classList.toggle("is-off", chosen !== null && !chosen.has(rank));
    },
  };
}

/** Senders from top to bottom, receivers from left to right; the darker, the more bytes. */
export function matrix(mesh: Mesh, pairs: readonly Pair[], colour: (group: number) => string, choose: (pair: Pair) => void): Picture {
  const ranks = mesh.ranks.map((rank) => rank.rank), n = ranks.length;
  const left = 44, top = 40, cell = Math.max(5, Math.min(56, (n > 16 ? 520 : 320) / n)), side = cell * n;
  const row = new Map(ranks.map((rank, i) => [rank, i])), most = Math.max(...pairs.map((pair) => pair.bytes));
  const cells = pairs.map((pair) => {
    const x = left + (row.get(pair.receiver) as number) * cell, y = top + (row.get(pair.sender) as number) * cell;
    const strength = Math.round(14 + 46 * Math.sqrt(pair.bytes / most));
    const box = svg("rect", { x: x + 0.5, y: y + 0.5, width: cell - 1, height: cell - 1, rx: cell > 12 ? 3 : 0, class: "cell", style: { fill: `color-mix(in srgb, ${colour(pair.group)} ${strength}%, var(--paper))` } });
    box.addEventListener("pointermove", (e) => showTip(e.clientX, e.clientY, t("from rank {a} to rank {b}", { a: pair.sender, b: pair.receiver }), [t("{bytes} a step", { bytes: size(pair.bytes) })]));
    box.addEventListener("pointerleave", hideTip);
    box.addEventListener("click", () => choose(pair));
    const text = cell >= 44 ? svg("text", { x: x + cell / 2, y: y + cell / 2 + 4, "text-anchor": "middle", class: "amount" }, size(pair.bytes).replace(" ", "\u2009")) : null;
    return { pair, box, text };
  });
  const every = Math.ceil((String(ranks.at(-1)).length * 7 + 7) / cell);
  const labels = ranks.flatMap((rank, i) => (i % every ? [] : [
    svg("text", { x: left - 7, y: top + (i + 0.5) * cell + 4, "text-anchor": "end" }, String(rank)),
    svg("text", { x: left + (i + 0.5) * cell, y: top - 7, "text-anchor": "middle" }, String(rank)),
  ]));
  const picture = svg("svg", { class: "plot mesh-matrix", viewBox: `0 0 ${left + side + 8} ${top + side + 8}`, style: { maxWidth: `${left + side + 8}px` }, role: "img", "aria-label": t("Bytes from each rank to each other one; the table below has the figures.") },
    svg("text", { x: left + 12, y: 13, class: "strong" }, t("to rank →")), svg("text", { x: 2, y: 13, class: "strong" }, t("from ↓")), ...labels,
    svg("rect", { x: left, y: top, width: side, height: side, style: { fill: "var(--wash)" } }), ...cells.map(({ box }) => box), ...cells.flatMap(({ text }) => (text ? [text] : [])));
  return {
    element: figure(t("From whom to whom, bytes of a step"), picture),
    lit(chosen) {
      for (const { pair, box } of cells) box.classList.toggle("is-off", chosen !== null && !(chosen.has(pair.sender) || chosen.has(pair.receiver)));
    },
  };
}
