// Rows and marks that light up with the page's selection, and which events a row stands for.

import type { Model } from "../../core/model";
import type { ReportPage } from "../../core/page";
import type { Selection } from "../../core/selection";

/** How an element stands to the selection. */
export type Light = "on" | "off" | "none";

/** Say of an element whether it belongs to the selection. */
export function light(element: Element, state: Light): void {
  element.classList.toggle("is-on", state === "on");
  element.classList.toggle("is-off", state === "off");
  if (element instanceof HTMLTableRowElement) {
    if (state === "on") element.setAttribute("aria-selected", "true");
    else element.removeAttribute("aria-selected");
  }
}

/**
 * Light the rows of a table: give `made` to the table. Rows that are drawn later (sorted, searched)
 * are lit as the selection stands then.
 */
export function litRows<Row>(page: ReportPage, belongs: (row: Row, selection: Selection) => boolean): (element: HTMLTableRowElement, row: Row) => void {
  const shown = new Map<Row, HTMLTableRowElement>();
  const state = (row: Row, selection: Selection | null): Light => (selection && belongs(row, selection) ? "on" : "none");
  page.selections.on((selection) => shown.forEach((element, row) => light(element, state(row, selection))));
  return (element, row) => {
    shown.set(row, element);
    light(element, state(row, page.selections.current));
  };
}

const OUTSIDE = /^\((\w+)\)$/;

/** Events of a module row; "(optimizer)" and the like are the work of a phase outside the model. */
export function moduleEvents(model: Model, path: string): number[] {
  const columns = model.run.timeline?.ops.columns, ops = model.run.timeline?.events.op;
  if (!columns || !ops) return [];
  const phaseOf = (event: number) => columns.phase[ops[event] as number] ?? "other";
  const phase = OUTSIDE.exec(path)?.[1];
  if (phase) return model.eventsWhere((event) => phaseOf(event) === phase);
  return path === "" ? model.eventsOfModule("").filter((event) => !isOutside(phaseOf(event))) : model.eventsOfModule(path);
}

/** Events of a module that belong to no module inside it. */
export const ownEvents = (model: Model, path: string): number[] => moduleEvents(model, path).filter((event) => model.modules[model.moduleOf[event] as number] === path);

const isOutside = (phase: string): boolean => phase === "optimizer" || phase === "input" || phase === "other";
