// Why a device was idle: one colour a cause, the same in all panels.

import { CAUSES, OTHER } from "../../core/colours";
import { t } from "../../core/language";

/** The colour of a cause of idle time (gpuscope.analysis.idle). */
export const causeColour = (cause: string): string => CAUSES[cause] ?? OTHER;

/** What a cause means, in a sentence. */
export function causeMeaning(cause: string): string {
  switch (cause) {
    case "host dispatching": return t("The host had not yet launched the next work: Python and the framework were too slow.");
    case "host synchronising": return t("The host waited for the device and so could not launch ahead.");
    case "launch gap": return t("What the machine itself needs between two pieces of work.");
    case "waiting for data": return t("The input of the step had not come.");
    case "waiting for another stream": return t("The next work waited for other work of the same device.");
    case "waiting for another rank": return t("The next work waited for another device.");
    case "waiting by chance": return t("Ranks vary by chance: the step waits for the slowest of all.");
    case "bubble": return t("The stage had no micro-batch to work on: those before it were not done, or had not come back.");
    default: return t("The recording does not tell.");
  }
}
