// The waiting inside collectives: a kernel has begun, but another rank has not come to it yet.

import { classColour } from "../../core/colours";
import type { Model } from "../../core/model";
import { type Row, type Spans, row } from "./rows";

export const HELD = "communication: waiting for another rank";

interface Held { rows: Map<string, Row>; calls: Map<string, { wait_ns: number; last: number }> }

const kept = new WeakMap<Model, Held>();

function heldOf(model: Model): Held {
  let held = kept.get(model);
  if (!held) {
    held = { rows: new Map(), calls: new Map() };
    const waits = model.run.collective_waits;
    waits?.start_ns.forEach((start, i) => held?.calls.set(`${waits.lane[i]}/${start}`, { wait_ns: waits.wait_ns[i], last: waits.last[i] }));
    kept.set(model, held);
  }
  return held;
}

/** The waits on a lane as a row of spans; null where there are none. */
export function heldRow(model: Model, lane: number, offset: number): Row | null {
  const waits = model.run.collective_waits, { rows } = heldOf(model), key = `${lane}/${offset}`;
  if (!waits) return null;
  let found = rows.get(key);
  if (!found) {
    const own = waits.lane.flatMap((l, i) => (l === lane ? [i] : []));
    const start = Float64Array.from(own, (i) => waits.start_ns[i]), end = Float64Array.from(own, (i) => waits.start_ns[i] + waits.wait_ns[i]);
    const spans: Spans = { start, end, colour: new Uint8Array(own.length), palette: [classColour(HELD)], offset, label: () => "" };
    found = row(spans, Int32Array.from(own.keys()));
    rows.set(key, found);
  }
  return found.index.length ? found : null;
}

/** How long an event of a collective waits, and for which rank; null for others. */
export function heldBy(model: Model, event: number): { wait_ns: number; last: number } | null {
  const tl = model.run.timeline;
  return (tl && heldOf(model).calls.get(`${tl.events.lane[event]}/${tl.events.start_ns[event]}`)) ?? null;
}
