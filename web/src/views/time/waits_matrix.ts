// Who waits for whom: seconds that each rank waited for each other, as far as single collectives are told.

import { h, svg, tipped } from "../../core/dom";
import { time } from "../../core/format";
import { t } from "../../core/language";
import type { Call } from "./meeting";

/** Waiting by rank (rows) and the rank that came last (columns), summed over calls. */
export function waitsFor(calls: readonly Call[]): { ranks: number[]; seconds: number[][] } {
  const ranks = [...new Set(calls.flatMap((call) => call.ranks))].sort((a, b) => a - b), at = new Map(ranks.map((rank, i) => [rank, i]));
  const seconds = ranks.map(() => new Array<number>(ranks.length).fill(0));
  for (const call of calls) {
    const last = at.get(call.last);
    call.ranks.forEach((rank, i) => { if (last !== undefined && rank !== call.last) seconds[at.get(rank) as number][last] += call.waits_s[i]; });
  }
  return { ranks, seconds };
}

/** The matrix as a picture; null where nobody waited. */
export function waitsMatrix(calls: readonly Call[]): HTMLElement | null {
  const { ranks, seconds } = waitsFor(calls), most = Math.max(0, ...seconds.flat()), n = ranks.length;
  if (n < 2 || most <= 0) return null;
  const cell = Math.max(8, Math.min(34, 320 / n)), left = 34, top = 34, every = n > 40 ? 8 : n > 16 ? 4 : 1;
  const label = (i: number) => (i % every === 0 ? String(ranks[i]) : "");
  const cells = seconds.flatMap((row, r) => row.map((value, c) => {
    const one = svg("rect", { x: left + c * cell, y: top + r * cell, width: cell - 1, height: cell - 1, rx: 2, class: r === c ? "self" : "cell", style: { "--share": `${Math.round(100 * Math.sqrt(value / most))}%` } });
    return r === c ? one : tipped(one, t("rank {rank}", { rank: ranks[r] }), [t("waited {time} for rank {other}", { time: time(value), other: ranks[c] })]);
  }));
  const width = left + n * cell + 2, height = top + n * cell + 2;
  return h("figure", { class: "tm-matrix" },
    h("figcaption", {}, t("Who waited (rows) for whom (columns), in the {n} collectives with most waiting; darkest: {time}.", { n: calls.length, time: time(most) })),
    svg("svg", { viewBox: `0 0 ${width} ${height}`, style: { "max-width": `${width}px` }, role: "img", "aria-label": t("Who waits for whom") },
      svg("text", { x: left + (n * cell) / 2, y: 11, "text-anchor": "middle" }, t("last to come")),
      ranks.map((_, i) => svg("text", { x: left + i * cell + cell / 2, y: top - 6, "text-anchor": "middle" }, label(i))),
      ranks.map((_, i) => svg("text", { x: left - 6, y: top + i * cell + cell / 2 + 4, "text-anchor": "end" }, label(i))), cells));
}
