// Which terms of the step's account an event's time is made of.

import type { Model } from "../../core/model";

/** What an event is of which no kernel group is known, by its kind. */
const BY_KIND: Record<string, string> = { communication: "communication", memcpy: "transfers", memset: "pointwise" };

/** The terms of the account that an event's time is made of, each as a share; of a kernel group as in the whole step. */
export function sharesOf(model: Model, event: number): [string, number][] {
  const { account } = model.run.analysis, tl = model.run.timeline, group = model.groups[model.groupOf[event]] ?? "";
  const own = Object.entries(account?.by_group?.[group] ?? {}), sum = own.reduce((all, [, s]) => all + s, 0);
  if (sum > 0 && group) return own.map(([key, s]) => [key, s / sum]);
  return [[BY_KIND[tl ? tl.kinds[tl.events.kind[event]] : ""] ?? "unknown", 1]];
}
