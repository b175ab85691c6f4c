// Cells by row and column: amounts as shades, or sorts as colours; a canvas, with a table on demand.

import type { HeatMapBlock } from "../core/document";
import { roleColour } from "../core/colours";
import { css, h, hideTip, showTip } from "../core/dom";
import { onResize } from "../core/drawing";
import { quantity } from "../core/format";
import { said, t } from "../core/language";
import { onTheme } from "../core/theme";
import { asTable, legend } from "../core/panel";
import { figure } from "./figure";

const TOP = 6, BOTTOM = 34;

export function heatmap(block: HeatMapBlock): HTMLElement {
  const canvas = h("canvas", { role: "img", "aria-label": said(block.title) });
  const rows = block.values.length;
  const cellHeight = Math.max(3, Math.min(26, 420 / Math.max(1, rows)));
  const height = TOP + cellHeight * rows + BOTTOM;
  const place = h("div", { class: "heat", style: { height: `${height}px` } }, canvas);
  const draw = () => paint(canvas, block, place.clientWidth, cellHeight, height);
  onResize(place, draw);
  const end = onTheme(() => { if (place.isConnected) draw(); else end(); });
  canvas.addEventListener("pointermove", (e) => {
    const found = under(block, e.offsetX, e.offsetY, place.clientWidth, cellHeight);
    if (found) showTip(e.clientX, e.clientY, `${said(block.y.label)} ${name(block, "y", found.row)}, ${said(block.x.label)} ${name(block, "x", found.column)}`, [shown(block, found.value)]);
    else hideTip();
  });
  canvas.addEventListener("pointerleave", hideTip);
  return figure("heatmap", block.title, block.note, place, key(block), asTable(() => tableOf(block)));
}

const columnsOf = (block: HeatMapBlock): number => Math.max(1, ...block.values.map((row) => row.length));
const name = (block: HeatMapBlock, side: "x" | "y", i: number): string => (side === "x" ? block.x_labels : block.y_labels)[i] ?? String(i);

/** Room for the names of the rows. */
const leftOf = (block: HeatMapBlock): number => Math.min(150, Math.max(64, 12 + 7 * Math.max(0, ...block.values.map((_, r) => name(block, "y", r).length))));

/** What a cell says. */
export function shown(block: HeatMapBlock, value: number | null): string {
  if (value === null) return t("nothing");
  const words = block.classes[value];
  return block.classes.length ? (words ? said(words) : "") : quantity(value, block.unit);
}

/** The cell under a point of the picture. */
export function under(block: HeatMapBlock, x: number, y: number, width: number, cellHeight: number): { row: number; column: number; value: number | null } | null {
  const columns = columnsOf(block), left = leftOf(block);
  const column = Math.floor((x - left) / ((width - left) / columns)), row = Math.floor((y - TOP) / cellHeight);
  if (column < 0 || column >= columns || row < 0 || row >= block.values.length) return null;
  return { row, column, value: block.values[row]?.[column] ?? null };
}

function paint(canvas: HTMLCanvasElement, block: HeatMapBlock, width: number, cellHeight: number, height: number): void {
  const scale = devicePixelRatio || 1, columns = columnsOf(block), left = leftOf(block);
  canvas.width = Math.max(1, width * scale);
  canvas.height = height * scale;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const ctx = canvas.getContext("2d");
  if (!ctx) return;
  ctx.setTransform(scale, 0, 0, scale, 0, 0);
  ctx.clearRect(0, 0, width, height);
  const cellWidth = (width - left) / columns, gapX = cellWidth > 5 ? 1 : 0, gapY = cellHeight > 5 ? 1 : 0;
  const most = Math.max(...block.values.flat().map((v) => v ?? 0), Number.MIN_VALUE);
  block.values.forEach((row, r) => row.forEach((value, c) => {
    if (value === null) return;
    ctx.globalAlpha = block.classes.length ? 1 : 0.08 + 0.92 * (value / most);
    ctx.fillStyle = block.classes.length ? classColours(block)[value] ?? css("--idle") : css("--accent");
    ctx.fillRect(left + c * cellWidth, TOP + r * cellHeight, Math.max(0.5, cellWidth - gapX), Math.max(0.5, cellHeight - gapY));
  }));
  ctx.globalAlpha = 1;
  labels(ctx, block, { width, height, cellWidth, cellHeight, columns });
}

const classColours = (block: HeatMapBlock): string[] => block.classes.map((_, i) => {
  const role = block.roles[i] ?? "other";
  return role === "idle" ? css("--idle") : roleColour(role);
});

function labels(ctx: CanvasRenderingContext2D, block: HeatMapBlock, at: { width: number; height: number; cellWidth: number; cellHeight: number; columns: number }): void {
  ctx.fillStyle = css("--soft");
  ctx.font = "11.5px system-ui, sans-serif";
  ctx.textBaseline = "middle";
  ctx.textAlign = "right";
  const left = leftOf(block);
  const everyRow = Math.ceil(14 / at.cellHeight);
  block.values.forEach((_, r) => { if (r % everyRow === 0) ctx.fillText(name(block, "y", r), left - 6, TOP + (r + 0.5) * at.cellHeight, left - 8); });
  ctx.textAlign = "center";
  const longest = Math.max(...Array.from({ length: at.columns }, (_, c) => name(block, "x", c).length));
  const everyColumn = Math.max(1, Math.ceil((longest * 7 + 10) / at.cellWidth));
  const bottom = TOP + block.values.length * at.cellHeight;
  for (let c = 0; c < at.columns; c += everyColumn) {
    const text = name(block, "x", c), half = ctx.measureText(text).width / 2;
    ctx.fillText(text, Math.min(left + (c + 0.5) * at.cellWidth, at.width - half), bottom + 9);
  }
  const across = said(block.x.label), down = said(block.y.label), wide = ctx.measureText(across).width;
  const begins = ctx.measureText(down).width + 14 + wide / 2;
  ctx.fillText(across, Math.min(Math.max(left + (at.width - left) / 2, begins), at.width - wide / 2), bottom + 25);
  ctx.textAlign = "left";
  ctx.fillText(down, 0, bottom + 25);
}

function key(block: HeatMapBlock): HTMLElement | null {
  if (!block.classes.length) return null;
  return legend(block.classes.map((words, i) => ({ label: said(words), colour: (block.roles[i] ?? "other") === "idle" ? "var(--idle)" : roleColour(block.roles[i] ?? "other") })));
}

const tableOf = (block: HeatMapBlock): HTMLElement => h("div", { class: "scroll" }, h("table", {},
  h("thead", {}, h("tr", {}, h("th", {}, said(block.y.label)), Array.from({ length: columnsOf(block) }, (_, c) => h("th", { scope: "col" }, name(block, "x", c))))),
  h("tbody", {}, block.values.map((row, r) => h("tr", {}, h("th", { scope: "row" }, name(block, "y", r)), row.map((value) => h("td", {}, shown(block, value))))))));
