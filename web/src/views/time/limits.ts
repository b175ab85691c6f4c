// From when to when a run's timeline goes.

import type { Timeline } from "../../core/document";
import { DEVICE_KINDS, type Model } from "../../core/model";
import { lengthOf, union } from "./intervals";
import { windowOf } from "./window";

/** First moment of the timeline, where its picture begins, and last moment; nanoseconds. */
export interface Limits { low: number; begin: number; high: number }

/** From the first to the last event, and where the picture begins: a host that waits for the step before would fill half of it. */
export function limitsOf(model: Model): Limits {
  const tl = model.run.timeline as Timeline, { kind } = tl.events;
  const step = tl.kinds.indexOf("step"), launch = tl.kinds.indexOf("launch");
  let low = Infinity, high = -Infinity, work = Infinity;
  for (let i = 0; i < model.count; i++) {
    if (kind[i] === step) continue;
    low = Math.min(low, model.start[i]);
    high = Math.max(high, model.end[i]);
    if (kind[i] < DEVICE_KINDS || kind[i] === launch) work = Math.min(work, model.start[i]);
  }
  for (const mark of tl.steps) { low = Math.min(low, mark.start_ns); high = Math.max(high, mark.end_ns); }
  high = Math.max(high, low + 1);
  const begin = Number.isFinite(work) ? Math.max(low, work - (high - work) * 0.02) : low, window = windowOf(model.run);
  if (!window || window.start - begin < 0.1 * (high - begin)) return { low, high, begin };
  const sync = tl.kinds.indexOf("sync"), waits = union(Array.from({ length: model.count }, (_, i): [number, number] => (kind[i] === sync ? [Math.max(begin, model.start[i]), Math.min(window.start, model.end[i])] : [0, 0])));
  return { low, high, begin: lengthOf(waits) > 0.5 * (window.start - begin) ? window.start - 0.06 * (high - window.start) : begin };
}
