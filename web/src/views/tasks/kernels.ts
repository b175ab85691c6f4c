// All kernels of the step, equal ones in one row: grid, tile, waves, what the last wave leaves empty.

import { familyColour } from "../../core/colours";
import { h, svg } from "../../core/dom";
import { count, digits, percent, time } from "../../core/format";
import { t, word } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { latePanel, table } from "../../core/panel";
import { bar, loss } from "./bits";
import { type KernelGroup, kernelGroups, type Split, splitOf } from "./groups";
import { litRows } from "./lit";

const MOST_WAVES = 4;

/** Choose a group of kernels on the whole page. */
export const chooseGroup = (page: ReportPage, group: KernelGroup, from: string): void =>
  page.selections.choose(page.model, from, group.label, page.model.eventsOfGroup(group.key));

/** The panel that lists the kernels. */
export function kernelsPanel(page: ReportPage): HTMLElement | null {
  const rows = kernelGroups(page.model).filter((group) => group.time_s > 0);
  if (!rows.length) return null;
  return latePanel("kernels", t("Kernels, and how their work is split"),
    t("A kernel is a grid of thread blocks. The device runs as many at once as it has room for: one wave. A last wave that is not full leaves places empty. Press a row to see the kernel below."),
    () => kernelTable(page, rows), 420);
}

function kernelTable(page: ReportPage, rows: readonly KernelGroup[]): HTMLElement {
  const step = page.run.analysis.step_s, most = Math.max(...rows.map((g) => g.time_s));
  const splits = new Map(rows.map((g) => [g, splitOf(page.run, g)]));
  const waves = (g: KernelGroup) => {
    const { found, tiles, unsure } = splits.get(g) as Split;
    if (!found) return g.task?.waves ?? 0;
    return (unsure && tiles ? tiles[0] : found.pieces) / found.slots;
  };
  const unsure = (g: KernelGroup) => splits.get(g)?.unsure ?? false;
  const empty = (g: KernelGroup) => (waves(g) > 0 && !unsure(g) ? (splits.get(g)?.found?.empty ?? g.task?.tail_loss ?? null) : null);
  const lost = (g: KernelGroup) => (empty(g) === null ? null : (empty(g) as number) * g.time_s);
  const some = (test: (g: KernelGroup) => boolean) => rows.some(test);
  const columns = [
    { title: t("kernel"), text: true, sort: (g: KernelGroup) => g.label, cell: (g: KernelGroup) => h("span", { class: "mono", title: g.kernel?.name ?? g.label }, g.label) },
    { title: t("time"), sort: (g: KernelGroup) => g.time_s, cell: (g: KernelGroup) => time(g.time_s) },
    { title: t("of step"), sort: (g: KernelGroup) => g.time_s, cell: (g: KernelGroup) => bar(g.time_s / most, familyColour(g.kind), percent(g.time_s / step)) },
    { title: t("launches"), sort: (g: KernelGroup) => g.count, cell: (g: KernelGroup) => count(g.count) },
    { title: t("limited by"), text: true, sort: (g: KernelGroup) => g.task?.limiter ?? "", cell: (g: KernelGroup) => limiter(g) },
    { title: t("blocks"), sort: (g: KernelGroup) => g.task?.grid ?? null, cell: (g: KernelGroup) => (g.task ? count(g.task.grid) : "") },
    ...(some((g) => (g.task?.tile.length ?? 0) > 0) ? [{ title: t("tile"), sort: (g: KernelGroup) => (g.task?.tile[0] ?? 0) * (g.task?.tile[1] ?? 0), cell: (g: KernelGroup) => g.task?.tile.join("×") ?? "" }] : []),
    ...(some((g) => waves(g) > 0) ? [
      { title: t("waves"), sort: waves, cell: (g: KernelGroup) => (waves(g) > 0 ? h("span", { class: "waves-cell" }, wavePicture(waves(g), g.kind), h("span", { class: "after", title: unsure(g) ? t("at least; by how the library lays its tiles") : null }, `${unsure(g) ? "≥ " : ""}${digits(waves(g))}`)) : "") },
      { title: t("left empty"), sort: lost, cell: (g: KernelGroup) => (empty(g) === null ? "" : loss(empty(g) as number)) },
    ] : []),
    ...(some((g) => g.task?.occupancy !== null && g.task !== null) ? [{ title: t("occupancy"), sort: (g: KernelGroup) => g.task?.occupancy ?? null, cell: (g: KernelGroup) => (g.task?.occupancy === null || !g.task ? "" : percent(g.task.occupancy)) }] : []),
  ];
  return table({
    caption: t("Kernels"), columns, rows, first: 12, search: (g) => `${g.label} ${g.kernel?.name ?? ""} ${g.kind}`,
    press: (g) => chooseGroup(page, g, "kernels"),
    made: litRows<KernelGroup>(page, (g, selection) => g.key !== "" && selection.groups.has(g.key)),
  });
}

const limiter = (g: KernelGroup): string => (!g.task || g.task.limiter === "unknown" ? "" : word(g.task.limiter));

/** Waves as small boxes, the last one filled as far as it is full. */
export function wavePicture(waves: number, kind: string): SVGElement {
  const whole = Math.floor(waves + 1e-9), part = waves - whole, cut = whole > MOST_WAVES, wide = 11;
  const fills = [...new Array<number>(Math.min(whole, MOST_WAVES)).fill(1), ...(part > 1e-6 ? [part] : [])];
  const picture = svg("svg", { class: "waves", width: fills.length * wide + (cut ? 12 : 0), height: 14, "aria-hidden": "true" });
  fills.forEach((fill, i) => {
    const x = i * wide + (cut && i >= MOST_WAVES ? 12 : 0);
    picture.append(svg("rect", { x: x + 0.5, y: 0.5, width: wide - 3, height: 13, fill: "none", stroke: "var(--faint)" }), svg("rect", { x: x + 1, y: 13 - 12 * fill, width: wide - 4, height: 12 * fill, fill: familyColour(kind) }));
  });
  if (cut) picture.append(svg("text", { x: MOST_WAVES * wide, y: 11, style: { fill: "var(--soft)", fontSize: "11px" } }, "…"));
  return picture;
}
