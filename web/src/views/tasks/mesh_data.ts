// What the mesh of ranks is drawn from: names of groups, rows and columns, places on a circle.

import type { Mesh, Run } from "../../core/document";
import type { Model } from "../../core/model";

const COMMUNICATION = 1;

/** Ranks in short: "0-3", "0, 8, … 56 (every 8th)" as its parts, "0, 1, 5". */
export function shortRanks(ranks: readonly number[], every: (step: number) => string): string {
  if (ranks.length < 3) return ranks.join(", ");
  const step = (ranks[1] as number) - (ranks[0] as number);
  const even = step > 0 && ranks.every((rank, i) => rank === (ranks[0] as number) + i * step);
  if (even && step === 1) return `${ranks[0]}–${ranks.at(-1)}`;
  if (even && ranks.length > 3) return `${ranks[0]}, ${ranks[1]}, … ${ranks.at(-1)} (${every(step)})`;
  return ranks.length > 12 ? `${ranks.slice(0, 10).join(", ")}, … ${ranks.at(-1)}` : ranks.join(", ");
}

export interface Pair { sender: number; receiver: number; bytes: number; group: number }

/** What each rank sends each other one over all groups; the group is the one with most of it. */
export function pairs(mesh: Mesh): Pair[] {
  const found = new Map<string, Pair & { most: number }>();
  for (const flow of mesh.flows) {
    const key = `${flow.sender}>${flow.receiver}`;
    const own = found.get(key) ?? { sender: flow.sender, receiver: flow.receiver, bytes: 0, group: flow.group, most: 0 };
    own.bytes += flow.sent_bytes;
    if (flow.sent_bytes > own.most) {
      own.most = flow.sent_bytes;
      own.group = flow.group;
    }
    found.set(key, own);
  }
  return [...found.values()].map(({ sender, receiver, bytes, group }) => ({ sender, receiver, bytes, group }));
}

/** Ranks by the host that they ran on, hosts in the order of their first rank. */
export function hosts(mesh: Mesh): { host: string; ranks: Mesh["ranks"] }[] {
  const found = new Map<string, Mesh["ranks"]>();
  for (const rank of mesh.ranks) found.set(rank.host, [...(found.get(rank.host) ?? []), rank]);
  return [...found].map(([host, ranks]) => ({ host, ranks }));
}

/** Places on a circle, the first at the top, clockwise. */
export const onCircle = (count: number, centre: number, radius: number): [number, number][] =>
  Array.from({ length: count }, (_, i) => {
    const angle = (i / count) * 2 * Math.PI - Math.PI / 2;
    return [centre + radius * Math.cos(angle), centre + radius * Math.sin(angle)];
  });

/** Communication events of a group (null: of all groups) on some ranks (null: on all). */
export function communicationEvents(model: Model, mesh: Mesh, group: number | null, ranks: ReadonlySet<number> | null): number[] {
  const tl = model.run.timeline, recorded = tl?.recorded;
  if (!tl || !recorded) return [];
  const name = group === null ? null : (mesh.groups[group]?.name ?? "");
  const only = mesh.groups.length === 1;
  const events = recorded.event as number[], collectives = recorded.collective as number[];
  return events.filter((event, row) => {
    if (tl.events.kind[event] !== COMMUNICATION) return false;
    if (ranks && !ranks.has(rankOf(model.run, event))) return false;
    return name === null || only || (tl.collectives[collectives[row] as number]?.group ?? "") === name;
  });
}

export const rankOf = (run: Run, event: number): number => run.timeline?.lanes[run.timeline.events.lane[event] as number]?.rank ?? 0;
