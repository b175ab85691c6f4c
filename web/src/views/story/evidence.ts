// Where a finding can be seen: a panel, and the events that it is about.

import { DEVICE_KINDS } from "../../core/model";
import type { ReportPage } from "../../core/page";

export interface Evidence { panel: string; events: number[]; range?: [number, number] }

/** A kernel shorter than this is mostly its own start. */
const SHORT_NS = 5_000;

/** The evidence of a kind of finding (analysis/types.py: FINDING_KINDS); null where none can be shown. */
export function evidenceOf(page: ReportPage, kind: string): Evidence | null {
  const found = EVIDENCE[kind]?.(page) ?? null;
  return found;
}

const EVIDENCE: Record<string, (page: ReportPage) => Evidence> = {
  compute_bound: (page) => ({ panel: "roofline", events: limited(page, ["compute", "tensor_core"]) }),
  low_precision_unused: (page) => ({ panel: "roofline", events: limited(page, ["compute", "tensor_core"]) }),
  bandwidth_bound: (page) => ({ panel: "roofline", events: limited(page, ["memory", "l2"]) }),
  poor_shapes: (page) => ({ panel: "kernels", events: limited(page, ["compute", "tensor_core"]) }),
  slow_kernels: () => ({ panel: "kernels", events: [] }),
  low_occupancy: (page) => ({ panel: "kernels", events: kernelsWhere(page, (k) => k.occupancy !== null && k.occupancy < 0.25) }),
  small_kernels: (page) => ({ panel: "timeline", events: device(page, (i) => length(page, i) < SHORT_NS) }),
  launch_bound: (page) => ({ panel: "launches", events: device(page, (i) => length(page, i) < SHORT_NS) }),
  communication_bound: (page) => ({ panel: "timeline", events: ofKind(page, "communication") }),
  transfer_bound: (page) => ({ panel: "timeline", events: ofKind(page, "memcpy") }),
  pageable_copies: (page) => ({ panel: "copies", events: ofKind(page, "memcpy") }),
  host_bound: (page) => idle(page), sync_bound: (page) => idle(page), input_bound: (page) => idle(page),
  wait_for_rank: (page) => ({ panel: "ranks", events: ofKind(page, "communication") }),
  does_not_fit: () => ({ panel: "memory", events: [] }),
  fragmented_memory: () => ({ panel: "memory", events: [] }),
  variable_steps: () => ({ panel: "steps", events: [] }),
  untrusted_trace: () => ({ panel: "trust", events: [] }),
};

const length = (page: ReportPage, i: number): number => page.run.timeline?.events.duration_ns[i] as number;

function device(page: ReportPage, test: (event: number) => boolean): number[] {
  const kinds = page.run.timeline?.events.kind ?? [];
  return page.model.eventsWhere((i) => (kinds[i] as number) < DEVICE_KINDS && test(i));
}

function ofKind(page: ReportPage, kind: string): number[] {
  const tl = page.run.timeline, wanted = tl?.kinds.indexOf(kind) ?? -1;
  return tl ? page.model.eventsWhere((i) => tl.events.kind[i] === wanted) : [];
}

function kernelsWhere(page: ReportPage, test: (kernel: { limiter: string; occupancy: number | null }) => boolean): number[] {
  const tl = page.run.timeline;
  if (!tl) return [];
  const wanted = tl.kernels.map(test);
  return page.model.eventsWhere((i) => (tl.events.kernel[i] as number) >= 0 && Boolean(wanted[tl.events.kernel[i] as number]));
}

const limited = (page: ReportPage, limiters: string[]): number[] => kernelsWhere(page, (k) => limiters.includes(k.limiter));

/** The longest idle stretch that the host is behind, and what it did there. */
function idle(page: ReportPage): Evidence {
  const spot = page.run.analysis.idle_spots[0] as { start_ns: number; longest_s: number } | undefined;
  if (!spot) return { panel: "timeline", events: [] };
  const range: [number, number] = [spot.start_ns, spot.start_ns + spot.longest_s * 1e9];
  return { panel: "timeline", range, events: page.model.eventsWhere((i) => (page.model.end[i] as number) > range[0] && (page.model.start[i] as number) < range[1]) };
}
