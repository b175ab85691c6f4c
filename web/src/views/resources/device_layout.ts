// Where the parts of the device stand in its picture, wide and narrow, and how thick its ways are.

import type { UseOverTime, UseSeries } from "../../core/document";
import { average, share } from "./units";

export interface Box { x: number; y: number; width: number; height: number }

export type Way = "l2" | "memory" | "h2d" | "d2h" | "link";

/** A way between two boxes: a straight pipe and where its text stands. */
export interface Pipe { way: Way; x1: number; y1: number; x2: number; y2: number; text: { x: number; y: number; anchor: "start" | "middle" | "end" } }

export interface Layout {
  width: number; height: number; narrow: boolean;
  gpu: Box; units: Box; l2: Box; memory: Box; host: Box; others: Box | null;
  pipes: Pipe[];
}

/** The picture's geometry; `linked` tells whether other devices are drawn. */
export function layoutOf(width: number, linked: boolean): Layout {
  return width < 760 ? narrowLayout(width, linked) : wideLayout(width, linked);
}

function wideLayout(width: number, linked: boolean): Layout {
  const side = Math.max(128, Math.min(150, width * 0.13)), gap = Math.max(116, Math.min(128, width * 0.115));
  const left = side + gap, right = linked ? width - side - gap : width - 1;
  const inner = { x: left + 22, width: right - left - 44 };
  const units = { ...inner, y: 40, height: 178 }, l2 = { ...inner, y: 280, height: 46 }, memory = { ...inner, y: 388, height: 52 };
  const middle = l2.y + l2.height / 2;
  const host = { x: 1, y: middle - 62, width: side, height: 124 };
  const others = linked ? { x: width - side - 1, y: middle - 62, width: side, height: 124 } : null;
  const centre = inner.x + inner.width / 2;
  const pipes: Pipe[] = [
    { way: "l2", x1: centre, y1: units.y + units.height, x2: centre, y2: l2.y, text: { x: centre + 24, y: units.y + units.height + 26, anchor: "start" } },
    { way: "memory", x1: centre, y1: l2.y + l2.height, x2: centre, y2: memory.y, text: { x: centre + 24, y: l2.y + l2.height + 26, anchor: "start" } },
    { way: "h2d", x1: host.x + host.width, y1: middle - 20, x2: l2.x, y2: middle - 20, text: { x: (host.x + host.width + left) / 2, y: middle - 72, anchor: "middle" } },
    { way: "d2h", x1: host.x + host.width, y1: middle + 20, x2: l2.x, y2: middle + 20, text: { x: (host.x + host.width + left) / 2, y: middle + 44, anchor: "middle" } },
  ];
  if (others) pipes.push({ way: "link", x1: l2.x + l2.width, y1: middle, x2: others.x, y2: middle, text: { x: (others.x + right) / 2, y: middle - 46, anchor: "middle" } });
  return { width, height: 470, narrow: false, gpu: { x: left, y: 1, width: right - left, height: 462 }, units, l2, memory, host, others, pipes };
}

function narrowLayout(width: number, linked: boolean): Layout {
  const inner = { x: 14, width: width - 28 };
  const units = { ...inner, y: 62, height: 26 + Math.min(126, inner.width * 0.31) }, first = units.y + units.height;
  const l2 = { ...inner, y: first + 58, height: 42 }, memory = { ...inner, y: first + 162, height: 46 };
  const edge = memory.y + 62, below = edge + 86, half = linked ? (width - 14) / 2 : width - 2;
  const host = { x: 1, y: below, width: half, height: 60 }, others = linked ? { x: width - half - 1, y: below, width: half, height: 60 } : null;
  const centre = 40;
  const pipes: Pipe[] = [
    { way: "l2", x1: centre, y1: units.y + units.height, x2: centre, y2: l2.y, text: { x: centre + 18, y: units.y + units.height + 26, anchor: "start" } },
    { way: "memory", x1: centre, y1: l2.y + l2.height, x2: centre, y2: memory.y, text: { x: centre + 18, y: l2.y + l2.height + 26, anchor: "start" } },
    { way: "h2d", x1: 22, y1: edge, x2: 22, y2: below, text: { x: 54, y: edge + 24, anchor: "start" } },
    { way: "d2h", x1: 40, y1: edge, x2: 40, y2: below, text: { x: 54, y: edge + 58, anchor: "start" } },
  ];
  if (others) pipes.push({ way: "link", x1: others.x + 24, y1: edge, x2: others.x + 24, y2: below, text: { x: others.x + 40, y: edge + 24, anchor: "start" } });
  return { width, height: below + 64, narrow: true, gpu: { x: 1, y: 1, width: width - 2, height: edge - 1 }, units, l2, memory, host, others, pipes };
}

/** Thickness of a way by what it can carry: 8 to 30 pixels from 1 GB/s to 10 TB/s. */
export const thickness = (bytes_per_s: number): number => 8 + 22 * Math.min(1, Math.max(0, (Math.log10(Math.max(bytes_per_s, 1)) - 9) / 4));

/** Small cells in a box: as square as whole numbers allow, whole rows before ragged ones. */
export function cells(count: number, box: Box): { columns: number; rows: number; size: number; gap: number } {
  const choices = Array.from({ length: count }, (_, i) => i + 1).map((columns) => {
    const rows = Math.ceil(count / columns);
    return { columns, rows, pitch: Math.min(box.width / columns, box.height / rows), whole: count % columns === 0 };
  });
  const most = Math.max(...choices.map((c) => c.pitch));
  const best = choices.filter((c) => c.whole && c.pitch > most * 0.8).sort((a, b) => b.pitch - a.pitch)[0] ?? choices.find((c) => c.pitch === most);
  if (!best) return { columns: 1, rows: 1, size: 0, gap: 0 };
  return { columns: best.columns, rows: best.rows, size: best.pitch * 0.82, gap: best.pitch * 0.18 };
}

/** The series with the highest share of what it could do; null where none has a limit. */
export function narrowest(use: UseOverTime | null, read: (series: UseSeries) => number | null = average): { series: UseSeries; share: number } | null {
  let found: { series: UseSeries; share: number } | null = null;
  for (const series of use?.series ?? []) {
    // Power follows from the others, and a block on every unit does not mean that it works.
    if (series.key === "power" || series.key === "sm") continue;
    const amount = read(series), part = amount === null ? null : share(series, amount);
    if (part !== null && (!found || part > found.share)) found = { series, share: part };
  }
  return found;
}
