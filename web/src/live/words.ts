// A moment in words: what runs, where in the model, from which line.

import type { Run, Timeline } from "../core/document";
import { time } from "../core/format";
import { operatorLabel, t, word } from "../core/language";
import { shortName } from "../views/time/symbol";
import type { Instant } from "./instant";

/** What the device does, or why it waits, in a few words. */
export function doing({ run }: { run: Run }, instant: Instant | null): string {
  const tl = run.timeline;
  if (!tl || !instant) return "";
  const [event] = instant.running;
  if (event === undefined) return instant.idle ? `${t("idle")}${t(": ")}${t(instant.idle.cause)}` : t("nothing on the device");
  const name = shortName(tl.names[tl.events.name[event] as number] ?? ""), module = placeOf(tl, event).module;
  return [name, module, instant.running.length > 1 ? t("and {n} more beside it", { n: instant.running.length - 1 }) : ""].filter(Boolean).join(" · ");
}

/** Where an event comes from: module, operator, phase and line of the user's code; "" where it is not known. */
export function placeOf(tl: Timeline, event: number): { module: string; operator: string; phase: string; site: string } {
  const op = tl.events.op[event] as number, { columns, modules, names, sites } = tl.ops;
  const name = columns.name[op];
  if (op < 0 || name === undefined) return { module: "", operator: "", phase: "", site: "" };
  return {
    module: modules[columns.module[op] as number] ?? "", operator: operatorLabel(names[name] ?? ""),
    phase: columns.phase[op] ? word(columns.phase[op] as string) : "", site: sites?.[columns.site?.[op] ?? -1] ?? "",
  };
}

/** How far an event has come: "3.1 µs of 12 µs". */
export function progress(tl: Timeline, event: number, at: number): string {
  const start = tl.events.start_ns[event] as number, long = tl.events.duration_ns[event] as number;
  return t("{passed} of {whole}", { passed: time((at - start) * 1e-9), whole: time(long * 1e-9) });
}
