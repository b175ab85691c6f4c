// Where the step's time goes: by class (with all causes of idle time), by kernel family, by phase.

import { PHASES, classColour, familyColour } from "../../core/colours";
import type { Share } from "../../core/document";
import { classLabel, t, word } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { asTable, panel } from "../../core/panel";
import type { Selection } from "../../core/selection";
import { deviceEvents, familyOf, phaseOf } from "./belongs";
import { causeColour, causeMeaning } from "./causes";
import { type Part, stack, stackTable } from "./stack";
import { mainRank } from "./window";

const IDLE = "idle: ";

/** The step by what sets its time, idle time by its cause. */
export function classesPanel(page: ReportPage): HTMLElement | null {
  const a = page.run.analysis;
  if (!a.classes.length || a.host.length || !(a.step_s > 0)) return null;
  const parts = a.classes.map((share, i): Part => {
    const idle = share.label.startsWith(IDLE), cause = share.label.slice(IDLE.length);
    return { label: classLabel(share.label), colour: idle ? causeColour(cause) : classColour(share.label, i), seconds: share.time_s, count: idle ? null : share.count,
      empty: idle, meaning: idle ? causeMeaning(cause) : meaningOf(share.label), press: idle ? () => page.show("idle") : undefined };
  });
  return breakdown(page, "classes", t("Where the time goes"),
    t("The whole bar is one step. Solid parts: the device works, by what sets the pace of that work. Hatched parts: it waits, by the cause."), parts);
}

function meaningOf(label: string): string {
  switch (label) {
    case "compute-bound": return t("Arithmetic sets the time.");
    case "bandwidth-bound": return t("Device memory sets the time.");
    case "instruction-bound": return t("Neither arithmetic nor memory: the units are busy issuing instructions.");
    case "launch-bound": return t("Too short to matter but for starting.");
    case "transfers": return t("Copies between host and device.");
    case "communication": return t("Data between devices, with no computing beside it.");
    case "communication: transfer": return t("Data moves between devices, with no computing beside it.");
    case "communication: waiting for another rank": return t("A collective has begun here, but another device has not come to it yet.");
    default: return t("No cost model knows these kernels.");
  }
}

/** Device time by kernel family. */
export function familiesPanel(page: ReportPage): HTMLElement | null {
  const parts = shares(page, page.run.analysis.kinds, "families", familyColour, (tl, i) => familyOf(tl, i));
  return parts.length ? breakdown(page, "families", t("By kernel family"), t("What kind of work the device did. Press a row to choose its kernels everywhere on this page."), parts) : null;
}

/** Device time by forward, backward and optimizer. */
export function phasesPanel(page: ReportPage): HTMLElement | null {
  const parts = shares(page, page.run.analysis.phases, "phases", (label) => PHASES[label] ?? PHASES.other, (tl, i) => phaseOf(tl, i));
  return parts.length ? breakdown(page, "phases", t("By phase"), t("Device time of the forward pass, the backward pass and the optimizer."), parts) : null;
}

function shares(page: ReportPage, rows: Share[], from: string, colour: (label: string) => string, of: (tl: NonNullable<ReportPage["run"]["timeline"]>, event: number) => string): Part[] {
  const tl = page.run.timeline;
  return rows.filter((row) => row.time_s > 0).map((row): Part => {
    const label = row.label ? word(row.label) : t("not recorded");
    const events = () => deviceEvents(page.model, tl ? mainRank(tl) : null, (line, i) => of(line, i) === row.label);
    return { label, colour: colour(row.label), seconds: row.time_s, count: row.count,
      press: tl ? () => page.selections.choose(page.model, from, label, events()) : undefined,
      holds: tl ? (selection: Selection) => selection.events.some((i) => of(tl, i) === row.label) : undefined };
  });
}

function breakdown(page: ReportPage, id: string, title: string, about: string, parts: Part[]): HTMLElement {
  const step_s = page.run.analysis.step_s, drawn = stack(title, parts, step_s);
  page.selections.on(drawn.light);
  return panel(id, title, about, drawn.element, asTable(() => stackTable(title, parts, step_s)));
}
