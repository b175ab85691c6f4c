// The headline: what runs where, and its figures with interval and origin.

import { type Child, h } from "../../core/dom";
import type { Run } from "../../core/document";
import { count, energy, flopRate, missing, money, percent, power, size, time } from "../../core/format";
import { t, word } from "../../core/language";
import type { ReportPage } from "../../core/page";

export function headline({ run }: ReportPage): HTMLElement {
  return h("header", { id: "summary" },
    h("h1", {}, run.name),
    h("p", { class: "where" }, h("span", { class: "tag" }, t(run.origin)), h("b", {}, run.target)),
    h("dl", { class: "figures" }, missing(run.step_time_s) ? null : stepFigure(run), otherFigures(run)),
    run.fits === false ? h("p", { class: "alarm", role: "alert" }, doesNotFit(run)) : null);
}

/** Whether the run was read from what somebody recorded, not measured by gpuscope. */
export const isRecording = (run: Run): boolean => run.origin === "measured" && !run.measurement && Boolean(run.timeline?.sources?.length);

/** A recording made elsewhere cannot hold an energy or a throughput; a run measured or predicted could. */
function otherFigures(run: Run): (HTMLElement | null)[] {
  const bare = isRecording(run);
  return [bare && run.tokens === null && run.samples === null ? null : throughputFigure(run), memoryFigure(run),
    bare && run.energy_j === null ? null : energyFigure(run), bare && !run.analysis.utilisation ? null : mfuFigure(run)];
}

interface FigureParts { label: string; value: string; notes: (string | null)[]; extra?: Child; main?: boolean; origin?: string | undefined; title?: string }

function figure({ label, value, notes, extra, main, origin, title }: FigureParts): HTMLElement {
  const known = value === t("not available") ? " none" : "";
  return h("div", { class: `figure${main ? " main" : ""}${known}`, title }, h("dt", {}, label, origin && !known ? h("span", { class: `origin origin-${origin}` }, word(origin)) : null), h("dd", {}, value, extra, notes.filter(Boolean).map((note) => h("p", {}, note))));
}

function stepFigure(run: Run): HTMLElement {
  const [low, high] = run.step_time_interval_s;
  const note = isRecording(run) ? recordedSteps(run) : low < high ? intervalOf(run, low, high) : null;
  return figure({ label: t("Step time"), value: time(run.step_time_s), notes: [note], main: true, origin: run.origins.step_time_s });
}

function intervalOf(run: Run, low: number, high: number): string {
  const ends = { low: time(low), high: time(high) }, confidence = run.measurement?.confidence as number | null | undefined;
  return missing(confidence) ? t("80 % sure: {low} to {high}", ends) : t("median; {share} interval: {low} to {high}", { share: percent(confidence), ...ends });
}

/** Where the step time of a recording comes from. */
function recordedSteps(run: Run): string {
  const steps = run.timeline?.steps.filter((s) => s.rank === run.ranks[0]) ?? [], n = steps.length, [low, high] = run.step_time_interval_s;
  if (!n) return t("the whole recording; no step was found");
  if (missing(run.device_busy_s)) return t("between the host's marks; what the device took is not in the recording");
  const how = foundBy(steps[0].found), after = how ? t("; ") + how : "";
  if (low === high) return how ? t("median of {n} step(s)", { n }) + after : t("median of {n} marked step(s)", { n });
  const mean = run.analysis.step_s, differs = Math.abs(mean - run.step_time_s) > 0.02 * run.step_time_s;
  return t("median of {n} steps; the middle 80 %: {low} to {high}", { n, low: time(low), high: time(high) }) + (differs ? t("; ") + t("mean {time}", { time: time(mean) }) : "") + after;
}

/** How steps that nobody marked were found; "" where they are marked. */
function foundBy(found: string | undefined): string {
  if (found === "optimizer") return t("no step is marked: found by the optimizer's calls");
  return found ? t("no step is marked: found by the kernels that recur") : "";
}

function throughputFigure(run: Run): HTMLElement {
  const tokens = run.figures.tokens_per_s as number | null, samples = run.figures.samples_per_s as number | null;
  const value = tokens ?? samples;
  return figure({ label: t("Throughput"), value: count(value), notes: [missing(value) ? null : tokens !== null ? t("tokens/s") : t("samples/s"), tokens !== null && samples !== null ? t("{rate} samples/s", { rate: count(samples) }) : null, devicesOf(run) > 1 && !missing(value) ? t("{rate} a device", { rate: count((value as number) / devicesOf(run)) }) : null] });
}

function memoryFigure(run: Run): HTMLElement {
  const capacity = run.analysis.memory?.capacity_bytes ?? null;
  const share = capacity && run.peak_memory_bytes !== null ? run.peak_memory_bytes / capacity : null;
  const style = run.fits === false ? "bad" : (share ?? 0) > 0.9 ? "warn" : "";
  return figure({
    label: t("Peak memory"), value: size(run.peak_memory_bytes), origin: run.origins.peak_memory_bytes,
    notes: [share === null ? null : t("{share} of {size}", { share: percent(share), size: size(capacity) }), run.reserved_memory_bytes === null ? null : t("reserved {size}", { size: size(run.reserved_memory_bytes) })],
    extra: share === null ? null : h("div", { class: "gauge" }, h("i", { class: style, style: { width: `${Math.min(100, share * 100)}%` } })),
  });
}

/** Devices of a predicted job; 1 elsewhere. */
const devicesOf = (run: Run): number => (run.figures.devices as number | undefined) ?? 1;

function energyFigure(run: Run): HTMLElement {
  const parts = run.analysis.energy, f = run.figures, devices = devicesOf(run), whole = f.job_energy_j as number | null | undefined;
  if (devices > 1) return figure({
    label: t("Energy a step"), value: energy(whole ?? null), origin: run.origins.energy_j,
    notes: [t(" of all {n} devices", { n: count(devices) }).trim(), missing(whole) ? null : t("{power} a device", { power: power((whole as number) / run.step_time_s / devices) }),
      !missing(f.usd_per_million_tokens) ? t("{money} a million tokens", { money: money(f.usd_per_million_tokens) }) : null],
  });
  return figure({
    label: t("Energy a step"), value: energy(run.energy_j), origin: run.origins.energy_j,
    notes: [parts?.average_w ? t("{power} on average", { power: power(parts.average_w) }) : null,
      !missing(f.usd_per_million_tokens) ? t("{money} a million tokens", { money: money(f.usd_per_million_tokens) }) : !missing(f.usd_per_step) ? t("{money} a step", { money: money(f.usd_per_step) }) : null],
  });
}

function mfuFigure(run: Run): HTMLElement {
  const used = run.analysis.utilisation, devices = devicesOf(run);
  if (devices > 1) return figure({
    label: "MFU", value: percent((run.figures.mfu as number | null) ?? null), title: used ? t(used.definition) : undefined as never,
    notes: [t("mean of {n} devices", { n: count(devices) }), missing(run.figures.hfu) ? null : `HFU ${percent(run.figures.hfu as number)}`],
  });
  return figure({
    label: "MFU", value: percent(used?.mfu ?? null), title: used ? t(used.definition) : undefined as never,
    notes: [used?.peak_flops_per_s ? t("{rate} of {peak}", { rate: flopRate(used.model_flops / run.step_time_s), peak: flopRate(used.peak_flops_per_s) }) : null,
      used?.hfu && Math.abs(used.hfu - used.mfu) > 1e-4 ? `HFU ${percent(used.hfu)}` : null],
  });
}

function doesNotFit(run: Run): string {
  const missingBytes = run.analysis.memory?.missing_bytes;
  return missingBytes ? t("Does not fit: {size} too much.", { size: size(missingBytes) }) : t("Does not fit.");
}
