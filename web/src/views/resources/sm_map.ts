// The device's multiprocessors over the step: a row each, a column a moment, as full as its places are taken.

import { familyColour } from "../../core/colours";
import { css, h, hideTip, showTip } from "../../core/dom";
import { onResize } from "../../core/drawing";
import { percent, time } from "../../core/format";
import { t, word } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { asTable, latePanel, legend, table } from "../../core/panel";
import type { Selection } from "../../core/selection";
import { onTheme } from "../../core/theme";
import { instantAt } from "../../live/instant";
import { doing } from "../../live/words";
import { kernelGroups, unitsOf } from "../tasks/groups";
import { limitsOf } from "../time/limits";
import { type SmGrid, columnMeans, hasGrid, smGrid } from "./sm_grid";
import { plural } from "./units";

/** Pixels of a row at most, and of all rows together at most. */
const ROW = 2.4, TALL = 330, LEFT = 44;
const STRETCHES = 12;

export function smMapPanel(page: ReportPage): HTMLElement | null {
  if (!page.cursor || !hasGrid(page.model)) return null;
  const unit = page.run.device?.compute_unit_label ?? "SM";
  return latePanel("sms", t("{units} over the step", { units: plural(unit) }),
    t("A row is one {unit}, a column a moment: as strong as its places for thread blocks are taken, in the colour of the kernels that run. Blocks are dealt to one after the other and all waves of a kernel last equally long. Press a place to choose its kernel; a chosen stretch or kernel is drawn alone.", { unit }),
    () => new SmMap(page, unit).body(), 420);
}

/** The stretch that is drawn: what is chosen, else all of it. */
export function stretchOf(page: ReportPage, selection: Selection | null): [number, number] {
  const { begin, high } = limitsOf(page.model), all: [number, number] = [begin, high];
  if (selection?.range && selection.range[1] > selection.range[0]) return [Math.max(begin, selection.range[0]), Math.min(high, selection.range[1])];
  const event = selection?.event ?? null;
  if (event === null) return all;
  const start = page.model.start[event] as number, end = page.model.end[event] as number, around = (end - start) * 0.15;
  return end > start ? [Math.max(begin, start - around), Math.min(high, end + around)] : all;
}

class SmMap {
  private readonly canvas = h("canvas", { role: "img" });
  private readonly line = h("i", { class: "sm-now", hidden: true });
  private readonly axis = h("div", { class: "sm-axis" });
  private readonly names = h("div", {});
  private readonly place = h("div", { class: "sm-map" }, this.canvas, this.line);
  private range: [number, number];
  private grid: SmGrid | null = null;
  private width = 0;

  constructor(private readonly page: ReportPage, private readonly unit: string) {
    this.range = stretchOf(page, page.selections.current);
  }

  body(): HTMLElement[] {
    const { page, place, canvas } = this;
    onResize(place, () => this.draw());
    const end = onTheme(() => { if (place.isConnected) this.draw(); else end(); });
    page.selections.on((selection) => {
      const range = stretchOf(page, selection);
      if (range[0] === this.range[0] && range[1] === this.range[1]) return;
      this.range = range;
      this.draw();
    });
    page.cursor?.onSeen(place, () => this.mark());
    canvas.addEventListener("pointermove", (e) => this.hover(e));
    canvas.addEventListener("pointerleave", hideTip);
    canvas.addEventListener("click", (e) => this.press(e));
    return [place, this.axis, this.names, asTable(() => this.table())];
  }

  private get height(): number {
    return Math.min(TALL, Math.round(unitsOf(this.page.run) * ROW));
  }

  private draw(): void {
    const { canvas, place, range } = this, width = place.clientWidth - LEFT, { height } = this;
    if (width <= 0) return;
    this.width = width;
    const columns = Math.max(60, Math.floor(width)), grid = smGrid(this.page.model, range[0], range[1], columns);
    this.grid = grid;
    canvas.width = columns;
    canvas.height = grid.units;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    canvas.dataset.from = String(range[0]);
    canvas.dataset.to = String(range[1]);
    paint(canvas, grid);
    const shares = Array.from({ length: columns }, (_, c) => columnMeans(grid, c)), mean = (of: "taken" | "working") => shares.reduce((sum, s) => sum + s[of], 0) / columns;
    const told = t("{taken} of the places of {units} {unit}s are taken on average, {working} of the {unit}s have work.", { taken: percent(mean("taken")), units: grid.units, unit: this.unit, working: percent(mean("working")) });
    canvas.setAttribute("aria-label", told);
    this.names.replaceChildren(h("p", { class: "res-note" }, told), legend([...grid.families.keys()].map((name) => ({ label: word(name), colour: familyColour(name) }))));
    const zero = this.page.cursor?.low ?? range[0], ends = [0, 0.25, 0.5, 0.75, 1].map((share) => range[0] + share * (range[1] - range[0]));
    this.axis.replaceChildren(...ends.map((at) => h("span", {}, time((at - zero) * 1e-9))));
    place.dataset.last = String(grid.units - 1);
    this.mark();
  }

  private mark(): void {
    const at = this.page.cursor?.at ?? null, [from, to] = this.range, { width } = this;
    this.line.hidden = at === null || at < from || at > to;
    if (at !== null) this.line.style.transform = `translateX(${LEFT + ((at - from) / (to - from)) * width}px)`;
  }

  /** Which moment and which multiprocessor are under the pointer. */
  private at(e: MouseEvent): { column: number; unit: number; moment: number } | null {
    const box = this.canvas.getBoundingClientRect(), { grid } = this, x = (e.clientX - box.left) / box.width, y = (e.clientY - box.top) / box.height;
    if (!grid || x < 0 || x >= 1 || y < 0 || y >= 1) return null;
    return { column: Math.floor(x * grid.columns), unit: Math.floor(y * grid.units), moment: grid.from + x * (grid.to - grid.from) };
  }

  private hover(e: MouseEvent): void {
    const spot = this.at(e), { grid, page } = this;
    if (!spot || !grid) return hideTip();
    const zero = page.cursor?.low ?? grid.from, share = grid.taken[spot.column * grid.units + spot.unit] as number;
    showTip(e.clientX, e.clientY, `${this.unit} ${spot.unit} · ${time((spot.moment - zero) * 1e-9)}`, [t("{share} of its places taken", { share: percent(share) }), doing(page, instantAt(page.model, spot.moment))]);
  }

  private press(e: MouseEvent): void {
    const spot = this.at(e), { page } = this;
    if (!spot) return;
    const event = instantAt(page.model, spot.moment)?.kernel ?? -1;
    if (event < 0) page.selections.clear();
    else this.choose(event);
    page.cursor?.set(spot.moment);
  }

  private choose(event: number): void {
    const { page } = this, group = page.model.groups[page.model.groupOf[event] as number] ?? "", label = kernelGroups(page.model).find((g) => g.key === group)?.label ?? "";
    page.selections.choose(page.model, "sms", label, page.model.eventsOfGroup(group), { event });
  }

  private table(): HTMLElement {
    const [from, to] = this.range, grid = smGrid(this.page.model, from, to, STRETCHES), zero = this.page.cursor?.low ?? from;
    const rows = Array.from({ length: STRETCHES }, (_, c) => ({ at: from + (c / STRETCHES) * (to - from), ...columnMeans(grid, c) }));
    return table({ caption: t("{units} over the step", { units: plural(this.unit) }), rows, columns: [
      { title: t("begins at"), cell: (row) => time((row.at - zero) * 1e-9), text: true },
      { title: t("places taken"), cell: (row) => percent(row.taken) },
      { title: t("{units} with work", { units: plural(this.unit) }), cell: (row) => percent(row.working) },
    ] });
  }
}

const channels = (colour: string): [number, number, number] => {
  const n = parseInt(colour.slice(1, 7), 16);
  return [n >> 16, (n >> 8) & 255, n & 255];
};

/** Every cell: the ground, as far towards its column's colour as its places are taken. */
function paint(canvas: HTMLCanvasElement, grid: SmGrid): void {
  const c = canvas.getContext("2d");
  if (!c) return;
  const image = c.createImageData(grid.columns, grid.units), ground = channels(css("--wash")), idle = channels(css("--idle"));
  const families = [...grid.families].map(([name, share]) => ({ share, colour: channels(familyColour(name)) }));
  for (let column = 0; column < grid.columns; column++) {
    const mixed = [0, 0, 0], all = families.reduce((sum, f) => sum + (f.share[column] as number), 0);
    for (const f of families) f.colour.forEach((v, k) => { mixed[k] = (mixed[k] as number) + (all > 0 ? (v * (f.share[column] as number)) / all : 0); });
    const unknown = Math.min(1, grid.unknown[column] as number);
    for (let unit = 0; unit < grid.units; unit++) {
      const share = grid.taken[column * grid.units + unit] as number, at = (unit * grid.columns + column) * 4;
      for (let k = 0; k < 3; k++) {
        const base = (ground[k] as number) * (1 - unknown) + (idle[k] as number) * unknown;
        image.data[at + k] = base + ((mixed[k] as number) - base) * share;
      }
      image.data[at + 3] = 255;
    }
  }
  c.putImageData(image, 0, 0);
}
