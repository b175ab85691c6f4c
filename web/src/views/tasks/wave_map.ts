// Blocks landing on the multiprocessors, wave by wave: a map of units by waves, the tail in sight.

import { h, hideTip, showTip, svg } from "../../core/dom";
import { onResize } from "../../core/drawing";
import { count, percent, time } from "../../core/format";
import { t } from "../../core/language";
import { sentences } from "./bits";
import { dealt, type Filling, type WaveRow, waveRows } from "./waves";

const LEFT = 64, RIGHT = 12, TOP = 18, TALL = 18, FOLDED = 26;

/** The map, and in words what it shows. `unit` is what the device calls a multiprocessor. */
export function waveMap(found: Filling, colour: string, unit: string, duration_s: number | null): HTMLElement {
  const rows = waveRows(found);
  const place = h("div", { class: "wave-map" });
  onResize(place, () => place.replaceChildren(draw(rows, found, colour, unit, Math.max(240, place.clientWidth))));
  return h("figure", { class: "wave-figure" }, h("figcaption", {}, inWords(found, unit, duration_s)), place, legendOf(found, colour, rows));
}

/** How the grid fills the device, in a sentence or two. */
export function inWords(found: Filling, unit: string, duration_s: number | null): string {
  const { pieces, slots, waves, last, units, resident } = found;
  const values = { pieces: count(pieces), slots: count(slots), waves: count(waves), last: count(last), units: count(units), unit, resident: count(resident), empty: count(slots - last) };
  const first = found.persistent
    ? t("One block on each {unit} stays there and works off {pieces} pieces, {units} at a time: {waves} waves.", values)
    : waves === 1
      ? t("{pieces} blocks for {slots} places ({units} {unit}s × {resident}): one wave holds them all.", values)
      : t("{pieces} blocks on {slots} places ({units} {unit}s × {resident}) take {waves} waves.", values);
  if (last === slots) return sentences([first, t("Every wave is full: no tail.")]);
  const share = percent(found.empty);
  const tail = waves === 1 ? t("{empty} places stay empty: the kernel is smaller than the machine.", values)
    : t("In the last wave {last} places are taken and {empty} stay empty: {share} of all places in all waves.", { ...values, share });
  const cost = waves > 1 && duration_s !== null && found.empty > 0.02 ? t("Were all waves equally long, that is about {time} of each launch.", { time: time(duration_s * found.empty) }) : null;
  return sentences([first, tail, cost]);
}

function legendOf(found: Filling, colour: string, rows: readonly WaveRow[]): HTMLElement {
  const items: [string, string][] = [[t("busy"), colour]];
  const partly = rows.some((row) => dealt(row.pieces, found.units, found.resident).some((n) => n > 0 && n < found.resident));
  if (partly) items.push([t("some places empty"), shade(colour, 0.5)]);
  if (rows.some((row) => row.pieces < found.units)) items.push([t("idle"), "var(--idle)"]);
  return h("ul", { class: "inline-legend" }, items.map(([name, paint]) => h("li", {}, h("i", { style: { background: paint } }), name)));
}

const tallOf = (row: WaveRow): number => (row.to > row.from ? FOLDED : TALL);

function draw(rows: WaveRow[], found: Filling, colour: string, unit: string, width: number): SVGElement {
  const inner = width - LEFT - RIGHT, each = Math.ceil(found.units / Math.max(24, Math.floor(inner / 2.6)));
  const columns = Math.ceil(found.units / each), wide = inner / columns;
  const height = TOP + rows.reduce((sum, row) => sum + tallOf(row), 0) + 30;
  const picture = svg("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": t("{units} {unit}s by {waves} waves; the last wave takes {last} of {slots} places.", { units: found.units, unit, waves: found.waves, last: count(found.last), slots: count(found.slots) }) });
  let y = TOP;
  for (const row of rows) {
    picture.append(...drawRow(row, found, colour, { y, wide, columns, each }));
    const name = row.to > row.from ? `${count(row.from)}–${count(row.to)}` : count(row.from);
    picture.append(svg("text", { x: LEFT - 8, y: y + tallOf(row) / 2 + 4, "text-anchor": "end" }, name));
    y += tallOf(row);
  }
  picture.append(svg("text", { x: LEFT - 8, y: TOP - 6, "text-anchor": "end", class: "strong" }, t("wave")), ...axisMarks(found, y, wide, each, unit, inner));
  hover(picture, rows, found, unit, { columns, each, inner, width });
  return picture;
}

interface Grid { y: number; wide: number; columns: number; each: number }

/** The colour of a multiprocessor of whose places a share is taken. */
const shade = (colour: string, share: number): string =>
  share >= 1 ? colour : share <= 0 ? "var(--idle)" : `color-mix(in srgb, ${colour} ${Math.round(15 + share * 60)}%, var(--paper))`;

/** A wave as one path a colour: busy, partly filled, idle. Folded waves stand as one taller row. */
function drawRow(row: WaveRow, found: Filling, colour: string, grid: Grid): SVGElement[] {
  const on = dealt(row.pieces, found.units, found.resident), tall = tallOf(row) - 3, space = grid.wide > 4 ? 1 : grid.wide > 2.4 ? 0.5 : 0;
  const paths = new Map<number, string>();
  for (let c = 0; c < grid.columns; c++) {
    const own = on.slice(c * grid.each, (c + 1) * grid.each);
    const share = Math.round((own.reduce((a, b) => a + b, 0) / (own.length * found.resident)) * 20) / 20;
    paths.set(share, `${paths.get(share) ?? ""}M${(LEFT + c * grid.wide).toFixed(2)},${grid.y}h${(grid.wide - space).toFixed(2)}v${tall}h${(-(grid.wide - space)).toFixed(2)}z`);
  }
  const shapes: SVGElement[] = [...paths].map(([share, d]) => svg("path", { d, style: { fill: shade(colour, share) } }));
  if (row.to === row.from) return shapes;
  const middle = LEFT + (grid.wide * grid.columns) / 2, waves = { n: count(row.to - row.from + 1) };
  const text = grid.wide * grid.columns > 330 ? t("{n} waves like this one, not drawn each", waves) : t("{n} equal waves", waves);
  return [...shapes, svg("rect", { x: LEFT, y: grid.y + 4, width: grid.wide * grid.columns, height: tall - 8, style: { fill: "var(--paper)", opacity: ".82" } }),
    svg("text", { x: middle, y: grid.y + tall / 2 + 4, "text-anchor": "middle", class: "strong" }, text)];
}

function axisMarks(found: Filling, y: number, wide: number, each: number, unit: string, inner: number): SVGElement[] {
  const at = (n: number) => LEFT + (Math.floor(n / each) + 0.5) * wide;
  const stops = [0, ...[1, 2, 3].map((i) => Math.round((found.units * i) / 4)), found.units - 1];
  const marks = stops.map((n) => svg("text", { x: at(n), y: y + 12, "text-anchor": "middle" }, String(n)));
  return [...marks, svg("text", { x: LEFT + inner / 2, y: y + 27, "text-anchor": "middle" }, each > 1 ? t("{unit} (a column is {n} of them)", { unit, n: each }) : unit)];
}

function hover(picture: SVGElement, rows: WaveRow[], found: Filling, unit: string, size: { columns: number; each: number; inner: number; width: number }): void {
  picture.addEventListener("pointermove", (e) => {
    const box = picture.getBoundingClientRect(), scale = size.width / box.width;
    const x = (e.clientX - box.left) * scale - LEFT;
    let y = (e.clientY - box.top) * scale - TOP;
    const row = rows.find((r) => (y -= tallOf(r)) < 0 && y >= -tallOf(r));
    const number = Math.floor((x / size.inner) * size.columns * size.each);
    if (!row || number < 0 || number >= found.units) return hideTip();
    const on = dealt(row.pieces, found.units, found.resident)[number] ?? 0;
    const wave = row.to > row.from ? t("waves {from} to {to}", { from: count(row.from), to: count(row.to) }) : t("wave {n}", { n: count(row.from) });
    showTip(e.clientX, e.clientY, `${unit} ${number}, ${wave}`, [t("{n} of {most} places taken", { n: on, most: found.resident })]);
  });
  picture.addEventListener("pointerleave", hideTip);
}
