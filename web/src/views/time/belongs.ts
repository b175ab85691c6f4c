// What an event belongs to: family, phase, operator; for selecting from a breakdown.

import type { Timeline } from "../../core/document";
import { operatorLabel } from "../../core/language";
import { DEVICE_KINDS, type Model } from "../../core/model";
import { shortName } from "./symbol";

/** The kernel family of an event, or its kind where the family is not known. */
export function familyOf(tl: Timeline, event: number): string {
  const kernel = tl.events.kernel[event];
  return kernel >= 0 ? tl.kernels[kernel].kind : tl.kinds[tl.events.kind[event]];
}

/** The phase of an event's operator; "" where it has none. */
export function phaseOf(tl: Timeline, event: number): string {
  const op = tl.events.op[event];
  return op >= 0 ? (tl.ops.columns.phase[op] ?? "") : "";
}

/** Device events of one rank (null: of all) for which a test holds. */
export function deviceEvents(model: Model, rank: number | null, test: (tl: Timeline, event: number) => boolean): number[] {
  const tl = model.run.timeline;
  if (!tl) return [];
  const { kind, lane } = tl.events;
  return model.eventsWhere((i) => kind[i] < DEVICE_KINDS && (rank === null || tl.lanes[lane[i]].rank === rank) && test(tl, i));
}

/** What is chosen with an event: equal kernels, else its operator's events, else those of its name; and its title. */
export function companions(model: Model, event: number): { title: string; events: number[] } {
  const tl = model.run.timeline;
  if (!tl) return { title: "", events: [event] };
  const { name, kind } = tl.events, label = tl.names[name[event]];
  const group = model.groupOf[event];
  if (group >= 0) return { title: shortName(label), events: model.eventsOfGroup(model.groups[group]) };
  const operator = model.operatorOf[event];
  if (operator >= 0) {
    const wanted = model.operators[operator];
    return { title: operatorLabel(wanted), events: model.eventsOfOperator(wanted) };
  }
  return { title: shortName(label), events: model.eventsWhere((i) => name[i] === name[event] && kind[i] === kind[event]) };
}

/** The longest device event of some, else the longest event; -1 for none. */
export function longestOf(model: Model, events: readonly number[]): number {
  const tl = model.run.timeline;
  let best = -1, most = -1;
  if (!tl) return best;
  for (const i of events) {
    const weight = tl.events.duration_ns[i] + (tl.events.kind[i] < DEVICE_KINDS ? 1e18 : 0);
    if (weight > most) { most = weight; best = i; }
  }
  return best;
}
