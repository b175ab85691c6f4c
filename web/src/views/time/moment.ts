// Choosing a moment: what other panels do to show it in the timeline.

import { time } from "../../core/format";
import { t } from "../../core/language";
import type { Model } from "../../core/model";
import type { ReportPage } from "../../core/page";

/** Events of some ranks (null: all) that touch a stretch of time; marks of whole steps are left out. */
export function eventsWithin(model: Model, from: number, to: number, ranks: ReadonlySet<number> | null): number[] {
  const tl = model.run.timeline;
  if (!tl) return [];
  const step = tl.kinds.indexOf("step"), { kind, lane } = tl.events;
  return model.eventsWhere((i) => model.start[i] < to && model.end[i] > from && kind[i] !== step && (ranks === null || ranks.has(tl.lanes[lane[i]].rank)));
}

/** Choose what happened in a stretch of time on a rank and show it in the timeline; lengths in seconds. */
export function showMoment(page: ReportPage, from: string, title: string, start_ns: number, length_s: number, rank: number): void {
  const end = start_ns + Math.max(length_s * 1e9, 1);
  const events = eventsWithin(page.model, start_ns, end, new Set([rank]));
  page.selections.choose(page.model, from, `${title} · ${time(length_s)}`, events, { range: [start_ns, end] });
  page.show("timeline");
}

/** In words: a stretch of time from a moment after the timeline's begin. */
export const stretchTitle = (start_ns: number, end_ns: number, zero: number): string =>
  t("{length} from {start}", { length: time((end_ns - start_ns) * 1e-9), start: time((start_ns - zero) * 1e-9) });
