// The critical path as it is drawn in the timeline: its segments on their lanes, and the events on it.

import type { CriticalPath } from "../../core/document";
import type { Model } from "../../core/model";
import { firstAfter } from "./rows";
import { lanesOf } from "./tracks";

export interface PathLine {
  source: number;
  /** Begin and end of each segment on the run's own clock, its lane (-1: none), and its kind. */
  start: Float64Array;
  end: Float64Array;
  lane: Int32Array;
  kind: string[];
  /** Which events lie on the path. */
  mask: Uint8Array;
}

/** Kinds of segments, by their number (gpuscope.analysis.critical_path). */
export const PATH_KINDS = ["kernel", "communication", "copy", "host operator", "host call", "python", "loading input", "launch latency", "synchronising", "handing over", "unexplained"];

/** The critical path of a run; null without one. */
export function pathLine(model: Model, source: number): PathLine | null {
  const path = model.run.analysis.critical_path;
  if (!path || !path.segment_start_ns.length) return null;
  const start = Float64Array.from(path.segment_start_ns), n = start.length;
  const end = start.map((_, i) => (i + 1 < n ? start[i + 1] : path.end_ns));
  const lane = Int32Array.from(path.segment_lane);
  const kind = [...path.segment_kind].map((k) => (typeof k === "number" ? (PATH_KINDS[k] ?? "unexplained") : k));
  return { source, start, end, lane, kind, mask: onPath(model, path, start, end, lane) };
}

function onPath(model: Model, path: CriticalPath, start: Float64Array, end: Float64Array, lane: Int32Array): Uint8Array {
  const mask = new Uint8Array(model.count), tl = model.run.timeline, lanes = lanesOf({ model, offset: 0 }, true);
  if (!tl) return mask;
  for (let s = 0; s < start.length; s++) {
    const wanted = path.names[path.segment_name[s]];
    for (const row of lanes[lane[s]] ?? []) {
      for (let k = firstAfter(row, start[s]); k < row.index.length && model.start[row.index[k]] < end[s]; k++) {
        if (tl.names[tl.events.name[row.index[k]]] === wanted) mask[row.index[k]] = 1;
      }
    }
  }
  return mask;
}
