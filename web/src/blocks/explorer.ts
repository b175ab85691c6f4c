// A live figure: sliders, what follows from them, and the curve over one of them.

import type { Cell, ExplorerBlock, Output, Slider } from "../core/document";
import { type Chart, chart } from "../core/chart";
import { h } from "../core/dom";
import { cell, quantity } from "../core/format";
import { said, t } from "../core/language";
import { figure } from "./figure";
import { linesOption } from "./lines";

let serial = 0;

/** Position of a combination of stops in the outputs' values: the last slider runs fastest. */
export function position(sliders: readonly Slider[], at: readonly number[]): number {
  return sliders.reduce((index, slider, i) => index * slider.values.length + (at[i] as number), 0);
}

export function explorer(block: ExplorerBlock): HTMLElement {
  const at = block.sliders.map((slider) => slider.start);
  const axisAt = block.sliders.findIndex((slider) => slider.key === block.x);
  const plotted = block.outputs.filter((output) => output.plotted && output.values.some((v) => typeof v === "number"));
  const unitOf = plotted[0]?.unit ?? "";
  const drawn = plotted.filter((output) => output.unit === unitOf);
  const numeric = axisAt >= 0 && (block.sliders[axisAt] as Slider).values.every((v) => typeof v === "number");
  let picture: Chart | null = null; // where nothing is drawn late, it draws before it is named
  if (numeric && drawn.length) picture = chart({ height: 280, label: said(block.title), option: () => curveOption(block, drawn, at, axisAt, picture?.element.clientWidth ?? 0), sized: () => picture?.redraw() });
  const results = h("dl", { class: "results", "aria-live": "polite" });
  const reading = h("p", { class: "reading", "aria-live": "polite" });
  const update = () => {
    const index = position(block.sliders, at);
    results.replaceChildren(...block.outputs.flatMap((output) => [h("dt", {}, said(output.label)), h("dd", {}, h("b", {}, cell(output.values[index] as Cell, output.unit)), interval(output, index))]));
    reading.textContent = block.reading ? filled(block, at, index) : "";
    picture?.redraw();
  };
  const controls = block.sliders.map((slider, i) => control(slider, at[i] as number, (to) => { at[i] = to; update(); }));
  update();
  return figure("explorer", block.title, block.note, h("div", { class: "explorer-body" }, h("div", { class: "controls" }, controls, results), picture ? picture.element : null), block.reading ? reading : null);
}

function interval(output: Output, index: number): HTMLElement | null {
  const low = output.low[index], high = output.high[index];
  if (typeof low !== "number" || typeof high !== "number") return null;
  return h("span", { class: "interval" }, t("{low} to {high}", { low: quantity(low, output.unit), high: quantity(high, output.unit) }));
}

const stop = (slider: Slider, i: number): string => cell(slider.values[i] as Cell, slider.unit);

function control(slider: Slider, start: number, change: (to: number) => void): HTMLElement {
  const id = `slider-${(serial += 1)}`;
  const names = slider.values.some((v) => typeof v === "string");
  if (names) {
    const select = h("select", { id, onchange: (e: Event) => change((e.target as HTMLSelectElement).selectedIndex) }, slider.values.map((_, i) => h("option", { selected: i === start }, stop(slider, i))));
    return h("div", { class: "control" }, h("label", { for: id }, said(slider.label)), select);
  }
  const shown = h("output", { for: id }, stop(slider, start));
  const input = h("input", {
    type: "range", id, min: 0, max: slider.values.length - 1, step: 1, value: start, "aria-valuetext": stop(slider, start),
    oninput: (e: Event) => {
      const element = e.target as HTMLInputElement, to = Number(element.value);
      shown.textContent = stop(slider, to);
      element.setAttribute("aria-valuetext", stop(slider, to));
      change(to);
    },
  });
  return h("div", { class: "control" }, h("label", { for: id }, said(slider.label)), input, shown);
}

/** The sentence with the sliders' and outputs' values in it. */
export function filled(block: ExplorerBlock, at: readonly number[], index: number): string {
  const values = new Map<string, string>();
  block.sliders.forEach((slider, i) => values.set(slider.key, stop(slider, at[i] as number)));
  for (const output of block.outputs) values.set(output.key, cell(output.values[index] as Cell, output.unit));
  return said(block.reading).replace(/\{(\w+)\}/g, (whole, key: string) => values.get(key) ?? whole);
}

function curveOption(block: ExplorerBlock, drawn: Output[], at: number[], axisAt: number, width: number): ReturnType<typeof linesOption> {
  const slider = block.sliders[axisAt] as Slider;
  const x = slider.values as number[];
  const along = (values: readonly (number | string | object | null)[]) => x.map((_, i) => {
    const value = values[position(block.sliders, at.map((stopAt, s) => (s === axisAt ? i : stopAt)))];
    return typeof value === "number" ? value : null;
  });
  const here = x[at[axisAt] as number] as number;
  return linesOption({
    x: { label: slider.label, unit: slider.unit, log: block.log_x },
    y: { label: (drawn[0] as Output).label, unit: (drawn[0] as Output).unit, log: block.log_y },
    series: drawn.map((output) => {
      const low = output.low.length ? along(output.low) : [], high = output.high.length ? along(output.high) : [];
      const whole = low.every((v) => v !== null) && high.every((v) => v !== null);
      return { label: output.label, x, y: along(output.values), shape: "line", role: output.role, low: whole ? (low as number[]) : [], high: whole ? (high as number[]) : [] };
    }),
    marks: [{ label: { en: "", zh: "" }, x: here, y: along((drawn[0] as Output).values)[at[axisAt] as number] ?? null, role: "bad" }],
  }, width);
}
