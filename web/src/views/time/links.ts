// Which launch started which work: for the selected event, or for all launches inside a selected call.

import { DEVICE_KINDS, type Model } from "../../core/model";

const MOST = 40;
let known: { model: Model; event: number; links: [number, number][] } | null = null;

/** Pairs of a launch and the work that it started, at most forty; remembers the last answer. */
export function linksOf(model: Model, event: number): [number, number][] {
  if (known?.model !== model || known.event !== event) known = { model, event, links: find(model, event) };
  return known.links;
}

function find(model: Model, event: number): [number, number][] {
  const tl = model.run.timeline;
  if (!tl) return [];
  const { correlation, kind, lane } = tl.events, rank = tl.lanes[lane[event]].rank;
  const own = correlation[event];
  // A call without a number of its own stands for the launches inside it.
  const wanted = new Map<number, number>();
  if (own >= 0) wanted.set(own, -1);
  else if (kind[event] >= DEVICE_KINDS) {
    for (let i = 0; i < model.count && wanted.size < MOST; i++) {
      if (lane[i] === lane[event] && correlation[i] >= 0 && model.start[i] >= model.start[event] && model.end[i] <= model.end[event]) wanted.set(correlation[i], i);
    }
  }
  if (!wanted.size) return [];
  const works: number[] = [];
  for (let i = 0; i < model.count; i++) {
    if (!wanted.has(correlation[i]) || tl.lanes[lane[i]].rank !== rank) continue;
    if (kind[i] < DEVICE_KINDS) works.push(i); else wanted.set(correlation[i], i);
  }
  return works.flatMap((work): [number, number][] => {
    const launch = wanted.get(correlation[work]) ?? -1;
    return launch >= 0 && launch !== work ? [[launch, work]] : [];
  }).slice(0, MOST);
}
