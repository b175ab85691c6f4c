// The model as a picture: modules by time, FLOPs, parameters or memory, as a treemap or a flame.

import { BRANCHES, PHASES } from "../../core/colours";
import { h, hideTip, tipped } from "../../core/dom";
import { onPaper, onResize } from "../../core/drawing";
import type { ModuleShare } from "../../core/document";
import { count, flops, percent, size, time } from "../../core/format";
import { t } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { instantAt } from "../../live/instant";
import { asTable, latePanel, legend, table, type TableColumn } from "../../core/panel";
import type { Selection } from "../../core/selection";
import { bar, chips } from "./bits";
import { type Cell, icicle, treemap } from "./layout";
import { light, litRows, moduleEvents, ownEvents } from "./lit";
import { type Measure, measuresOf, moduleLabel, moduleTree, type Part, trail } from "./tree";

const ROW = 30;
const SHOWN: Record<Measure, (value: number) => string> = { time, flops, parameters: count, peak: size };

const measureName = (measure: Measure): string =>
  ({ time: t("Time"), flops: t("FLOPs"), parameters: t("Parameters"), peak: t("Memory at the peak") })[measure];

/** The panel of the model's modules. */
export function modulesPanel(page: ReportPage): HTMLElement | null {
  const rows = page.run.modules_folded;
  if (!rows.some((row) => row.depth > 0)) return null;
  return latePanel("modules", t("The model, part by part"),
    t("The area of a part is its share; parts lie in the part that they belong to, equal layers are drawn as one. Press a part to choose it on the whole page; press it again to look inside."),
    () => [picture(page), asTable(() => moduleTable(page, rows))], 460);
}

function picture(page: ReportPage): HTMLElement {
  const { run } = page;
  const root = moduleTree(run, { step: t("whole step"), model: t("model"), own: t("its own"), phase: (name) => t(name) });
  let measure: Measure = "time", flame = false, focus = root;
  const crumbs = h("nav", { class: "crumbs", "aria-label": t("Where you are in the model") });
  const box = h("div", { class: "parts", role: "group", "aria-label": t("Parts of the model") });
  const cells = new Map<Part, HTMLElement>();
  const phases = phaseLegend(run.modules_folded);
  const draw = () => {
    hideTip();
    if (phases) phases.hidden = measure !== "time";
    crumbs.replaceChildren(...crumbTrail(focus, measure, (part) => { focus = part; draw(); }));
    cells.clear();
    const width = box.clientWidth || 800;
    const value = (part: Part) => part.value[measure];
    const laid = flame ? icicle(focus, value, width, ROW) : treemap(focus, value, { x: 0, y: 0, width, height: onPaper() ? 300 : width < 560 ? 460 : 420 }).filter((cell) => cell.part !== focus || focus.children.length === 0);
    const top = Math.min(...laid.map((cell) => cell.y));
    for (const cell of laid) cell.y -= top;
    box.style.height = `${Math.max(...laid.map((cell) => cell.y + cell.height), ROW)}px`;
    box.classList.toggle("flame", flame);
    box.replaceChildren(...laid.map((cell) => cells.set(cell.part, cellElement(cell, measure, root, press, flame)).get(cell.part) as HTMLElement));
    roving([...cells.values()]);
    lit(page.selections.current);
  };
  const press = (part: Part) => {
    const chosen = page.selections.current;
    const again = chosen?.from === "modules" && chosen.title === title(part);
    const inside = (again || part.parent === null) && part.children.length > 0;
    if (inside) {
      focus = part === focus ? part.parent ?? part : part;
      draw();
    } else if (part.parent) page.selections.choose(page.model, "modules", title(part), part.own ? ownEvents(page.model, part.path) : moduleEvents(page.model, part.path));
  };
  const lit = (selection: Selection | null) => cells.forEach((element, part) => light(element, stateOf(part, selection, page)));
  page.selections.on(lit);
  followCursor(page, box, cells);
  onResize(box, draw);
  return h("div", { class: "modules" },
    h("div", { class: "tools" },
      chips(t("What is drawn"), measuresOf(run.modules_folded).map((m) => [m, measureName(m)]), measure, (m) => { measure = m; draw(); }),
      chips(t("How it is drawn"), [["map", t("Areas")], ["flame", t("Layers")]], "map", (how) => { flame = how === "flame"; draw(); })),
    crumbs, box, phases);
}

const title = (part: Part): string => (part.own ? `${part.parent?.row?.path || part.parent?.label}${t(", ")}${part.label}` : part.row?.path || part.label);

function choosePart(page: ReportPage, path: string, name: string): void {
  page.selections.choose(page.model, "modules", name, moduleEvents(page.model, path));
}

/** Mark the innermost part that runs at the play head. */
function followCursor(page: ReportPage, box: HTMLElement, cells: ReadonlyMap<Part, HTMLElement>): void {
  let marked: HTMLElement | null = null;
  page.cursor?.onWhile(box, (at) => {
    const event = at === null ? undefined : instantAt(page.model, at)?.running[0];
    const path = event === undefined ? undefined : page.model.modules[page.model.moduleOf[event] as number];
    let found: HTMLElement | null = null, depth = -1;
    if (path !== undefined) {
      for (const [part, element] of cells) {
        const holds = part.path === path || path.startsWith(`${part.path}.`);
        if (part.parent && holds && part.path.length >= depth && !(part.own && part.path !== path)) { found = element; depth = part.path.length; }
      }
    }
    if (found === marked) return;
    marked?.classList.remove("is-now");
    found?.classList.add("is-now");
    marked = found;
  });
}

/** A part is lit where it, something below it or something above it was chosen. */
function stateOf(part: Part, selection: Selection | null, page: ReportPage): "on" | "off" | "none" {
  if (!selection || part.parent === null) return "none";
  if (selection.from === "modules" && selection.title === title(part)) return "on";
  if (part.own) return selection.events.some((event) => part.path === page.model.modules[page.model.moduleOf[event] as number]) ? "none" : "off";
  if (part.path.startsWith("(")) return selection.from === "modules" || !selection.events.some((e) => isOfPhase(page, e, part.path.slice(1, -1))) ? "off" : "none";
  for (const path of selection.modules) {
    if (path === part.path || path.startsWith(`${part.path}.`) || part.path === "") return "none";
  }
  return "off";
}

function isOfPhase(page: ReportPage, event: number, phase: string): boolean {
  const tl = page.run.timeline;
  return tl?.ops.columns.phase[tl.events.op[event] as number] === phase;
}

function crumbTrail(focus: Part, measure: Measure, go: (part: Part) => void): (Node | string)[] {
  const path = trail(focus);
  const shown = path.flatMap((part, i) => [i ? " › " : "",
    i === path.length - 1 ? h("b", { "aria-current": "location" }, part.label) : h("button", { type: "button", onclick: () => go(part) }, part.label)]);
  return [...shown, ` ${SHOWN[measure](focus.value[measure])}`];
}

function cellElement(cell: Cell<Part>, measure: Measure, root: Part, press: (part: Part) => void, flame: boolean): HTMLElement {
  const { part } = cell;
  const tint = part.own || part.branch < 0 ? "var(--faint)" : (BRANCHES[part.branch % BRANCHES.length] as string);
  const strength = part.own ? 6 : part.branch < 0 ? 12 : cell.open && !flame ? 16 : 34;
  const value = part.value[measure], amount = SHOWN[measure](value);
  const room = cell.width - 12, letters = (text: string) => text.length * 7;
  const named = cell.width > 26 && cell.height > 15;
  const beside = letters(part.label) + letters(amount) + 8 < room, below = !cell.open && !flame && cell.height > 36 && letters(amount) < room;
  const element = h("button", {
    type: "button", class: `part${part.own ? " own" : ""}${cell.open ? " open" : ""}`,
    "aria-label": `${part.label} ${amount}${title(part) === part.label ? "" : `${t(", ")}${title(part)}`}`,
    style: {
      left: `${cell.x}px`, top: `${cell.y}px`, width: `${Math.max(1, cell.width - 1)}px`, height: `${Math.max(1, cell.height - 1)}px`,
      "--tint": tint, "--strength": `${strength}%`,
    },
    onclick: () => press(part),
  }, named ? h("span", { class: "name" }, part.label) : null, " ",
  named && (beside || below) ? h("span", { class: "amount" }, amount) : null,
  part.row && !cell.open && measure === "time" ? phaseStrip(part.row) : null);
  return tipped(element, title(part), tipLines(part, root));
}

function tipLines(part: Part, root: Part): (string | null)[] {
  const { row, value } = part;
  const line = (name: string, text: string) => `${name}${t(": ")}${text}`;
  return [
    row?.class_name ? row.class_name + (row.count > 1 ? ` ×${row.count}` : "") : part.own ? t("its own work, not that of a part in it") : null,
    value.time > 0 ? line(t("time"), `${time(value.time)} (${t("{share} of the device's time", { share: percent(value.time / root.value.time) })})`) : null,
    row?.forward_s ? line(t("forward"), time(row.forward_s)) : null,
    row?.backward_s ? line(t("backward"), time(row.backward_s)) : null,
    value.flops > 0 ? line(t("arithmetic"), `${flops(value.flops)} (${percent(value.flops / root.value.flops)})`) : null,
    value.parameters > 0 ? line(t("parameters"), count(value.parameters)) : null,
    value.peak > 0 ? line(t("memory at the peak"), `${size(value.peak)} (${percent(value.peak / root.value.peak)})`) : null,
  ];
}

/** Forward and backward time of a part, as a strip at its foot. */
function phaseStrip(row: ModuleShare): HTMLElement | null {
  if (!(row.forward_s > 0 && row.backward_s > 0)) return null;
  const forward = (row.forward_s / row.time_s) * 100, both = ((row.forward_s + row.backward_s) / row.time_s) * 100;
  return h("i", { class: "strip", style: { background: `linear-gradient(to right, ${PHASES.forward} ${forward}%, ${PHASES.backward} ${forward}% ${both}%, transparent ${both}%)` } });
}

function phaseLegend(rows: readonly ModuleShare[]): HTMLElement | null {
  if (!rows.some((row) => row.forward_s > 0 && row.backward_s > 0)) return null;
  return legend([{ label: t("forward, at the foot of a part"), colour: PHASES.forward as string }, { label: t("backward"), colour: PHASES.backward as string }]);
}

/** One stop for the tabulator key; arrows go from part to part. */
function roving(elements: HTMLElement[]): void {
  elements.forEach((element, i) => {
    element.tabIndex = i === 0 ? 0 : -1;
    element.addEventListener("keydown", (e) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
      if (!step) return;
      e.preventDefault();
      const next = elements[(i + step + elements.length) % elements.length] as HTMLElement;
      elements.forEach((other) => { other.tabIndex = -1; });
      next.tabIndex = 0;
      next.focus();
    });
  });
}

function moduleTable(page: ReportPage, rows: readonly ModuleShare[]): HTMLElement {
  const step = page.run.analysis.step_s, most = Math.max(...rows.map((row) => row.time_s));
  const some = (value: (row: ModuleShare) => number) => rows.some((row) => value(row) > 0);
  const figure = (name: string, value: (row: ModuleShare) => number, shown: (v: number) => string): TableColumn<ModuleShare>[] =>
    some(value) ? [{ title: name, cell: (row) => (value(row) > 0 ? shown(value(row)) : ""), sort: value }] : [];
  const columns: TableColumn<ModuleShare>[] = [
    { title: t("module"), text: true, sort: (row) => row.path, cell: (row) => h("span", { class: "module-name", style: { paddingLeft: `${Math.min(6, row.depth) * 12}px` }, title: row.path }, row.path.startsWith("(") ? t(row.path.slice(1, -1)) : moduleLabel(row) || t("model")) },
    { title: t("class"), text: true, sort: (row) => row.class_name, cell: (row) => h("span", { class: "dim" }, row.class_name) },
    { title: t("time"), sort: (row) => row.time_s, cell: (row) => time(row.time_s) },
    { title: t("of step"), sort: (row) => row.time_s, cell: (row) => bar(row.time_s / most, "var(--accent)", percent(row.time_s / step)) },
    ...figure(t("forward"), (row) => row.forward_s, time), ...figure(t("backward"), (row) => row.backward_s, time),
    ...figure(t("arithmetic"), (row) => row.flops, flops), ...figure(t("parameters"), (row) => row.parameters, count),
    ...figure(t("memory at the peak"), (row) => row.peak_bytes ?? 0, size),
  ];
  return table({
    caption: t("Modules"), columns, rows, first: 16, search: (row) => `${row.path} ${row.class_name}`,
    press: (row) => choosePart(page, row.path, row.path || t("model")),
    made: litRows<ModuleShare>(page, (row, selection) => (selection.from === "modules" ? selection.title === (row.path || t("model")) : selection.modules.has(row.path))),
  });
}
