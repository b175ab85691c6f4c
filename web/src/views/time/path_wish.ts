// Whether the reader wants the critical path lit in the timeline: asked for in two panels.

const listeners = new Set<(on: boolean) => void>();
let on = false;

export const pathWished = (): boolean => on;

/** Ask for the critical path, or not. */
export function wishPath(wanted: boolean): void {
  on = wanted;
  for (const act of [...listeners]) act(on);
}

/** Call `act` now and at every change, until it returns false. */
export function onPathWish(act: (on: boolean) => boolean): void {
  const listener = (wanted: boolean) => { if (!act(wanted)) listeners.delete(listener); };
  listeners.add(listener);
  listener(on);
}
