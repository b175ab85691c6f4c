// Where a finding can be seen: the panel of its kind, and the events that it names itself.

import type { Finding } from "../../core/document";
import type { ReportPage } from "../../core/page";

export interface Evidence { panel: string; events: number[]; range?: [number, number] }

/** The panel that shows a kind of finding best (analysis/findings/); the timeline where none does. */
const PANELS: Record<string, string> = {
  compute_bound: "roofline", low_precision_unused: "roofline", bandwidth_bound: "roofline", below_roofline: "roofline",
  poor_shapes: "kernels", slow_kernels: "kernels", low_occupancy: "kernels", pointwise_bound: "timeline",
  launch_bound: "launches", pageable_copies: "copies", wait_for_rank: "ranks", imbalance: "job", pipeline_bubble: "job",
  does_not_fit: "memory", nearly_full: "memory", fragmented_memory: "memory", variable_steps: "steps", untrusted_trace: "trust",
};

/** Kinds that are about no events: their panel alone shows them. */
const WITHOUT_EVENTS = new Set(["does_not_fit", "nearly_full", "fragmented_memory", "variable_steps", "untrusted_trace"]);

/** The evidence of a finding; null where nothing can be shown. */
export function evidenceOf(page: ReportPage, finding: Finding): Evidence | null {
  const panel = PANELS[finding.kind] ?? "timeline", about = finding.about ?? null;
  if (about?.events.length) return { panel, events: about.events };
  if (about?.idle.length) return { panel: "timeline", ...idleStretch(page, about.idle) };
  return WITHOUT_EVENTS.has(finding.kind) ? { panel, events: [] } : null;
}

/** The longest idle stretch of these causes, and what the host did there. */
export function idleStretch(page: ReportPage, causes: string[]): { events: number[]; range?: [number, number] } {
  const spots = page.run.analysis.idle_spots as { cause: string; start_ns: number; longest_s: number }[];
  const spot = spots.find((each) => causes.includes(each.cause));
  if (!spot) return { events: [] };
  const range: [number, number] = [spot.start_ns, spot.start_ns + spot.longest_s * 1e9];
  return { range, events: page.model.eventsWhere((i) => (page.model.end[i] as number) > range[0] && (page.model.start[i] as number) < range[1]) };
}
