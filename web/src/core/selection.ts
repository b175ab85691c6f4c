// What the reader chose: events of the timeline. Choosing in one view selects in all.

import type { Model } from "./model";

/** Something chosen: its name, and the events that belong to it. */
export interface Selection {
  /** In words, for the bar at the foot of the page. */
  title: string;
  /** Which panel it was chosen in; that panel need not move to it. */
  from: string;
  /** Rows of the timeline's events, ascending. */
  events: number[];
  /** The one event that was meant, where it was one. */
  event: number | null;
  /** Kernel groups, module paths, operators and ranks of the events. */
  groups: ReadonlySet<string>;
  modules: ReadonlySet<string>;
  operators: ReadonlySet<string>;
  ranks: ReadonlySet<number>;
  /** Stretch of time of a range or finding, nanoseconds on the timeline's clock; null for none. */
  range: [number, number] | null;
}

type Listener = (selection: Selection | null) => void;

/** The selection of one page and who wants to know of it. */
export class Selections {
  private listeners = new Set<Listener>();
  current: Selection | null = null;

  /** Call `act` now and at every change. */
  on(act: Listener): void {
    this.listeners.add(act);
    act(this.current);
  }

  /** Forget all listeners: the page is drawn anew. */
  reset(): void {
    this.listeners.clear();
  }

  clear(): void {
    this.set(null);
  }

  /** Choose events; `event` is the one that was meant. */
  choose(model: Model, from: string, title: string, events: number[], options: { event?: number; range?: [number, number] } = {}): void {
    const groups = new Set<string>(), modules = new Set<string>(), operators = new Set<string>(), ranks = new Set<number>();
    const tl = model.run.timeline;
    for (const i of events) {
      const g = model.groupOf[i] as number, m = model.moduleOf[i] as number, o = model.operatorOf[i] as number;
      if (g >= 0) groups.add(model.groups[g] as string);
      if (m >= 0) modules.add(model.modules[m] as string);
      if (o >= 0) operators.add(model.operators[o] as string);
      if (tl) ranks.add((tl.lanes[tl.events.lane[i] as number] as { rank: number }).rank);
    }
    this.set({ title, from, events, event: options.event ?? (events.length === 1 ? (events[0] as number) : null), groups, modules, operators, ranks, range: options.range ?? null });
  }

  private set(selection: Selection | null): void {
    this.current = selection;
    for (const act of [...this.listeners]) act(selection);
  }
}
