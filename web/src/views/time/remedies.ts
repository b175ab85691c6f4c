// Changes of the run: their names, and which of them is drawn beside the step as it is.

import type { Remedy } from "../../core/document";
import { t } from "../../core/language";

const listeners = new Set<(at: number) => boolean>();

/** Ask for a change to be drawn, by its place in `run.remedies`. */
export function wishRemedy(at: number): void {
  for (const act of [...listeners]) if (!act(at)) listeners.delete(act);
}

/** Call `act` when a change is asked for, until it returns false. */
export const onRemedyWish = (act: (at: number) => boolean): void => { listeners.add(act); };

/** A change in a few words: what it does, else which finding was done. */
export function remedyName(remedy: Remedy): string {
  if (remedy.title) return t(remedy.title);
  const [at] = remedy.findings;
  return at === undefined ? "" : t("no. {number} done", { number: at + 1 });
}
