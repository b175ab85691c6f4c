// What is known of an event, as title and pairs of label and value.

import type { KernelRow } from "../../core/document";
import { byteRate, count, digits, flopRate, flops, percent, size, time } from "../../core/format";
import { operatorLabel, t, word } from "../../core/language";
import type { Model } from "../../core/model";
import { heldBy } from "./held";
import { linksOf } from "./links";

export type Facts = [string, string][];

/** Title and facts of an event; its begin is told from `zero`, on the run's own clock. */
export function describe(model: Model, event: number, zero: number): { title: string; facts: Facts } {
  const tl = model.run.timeline;
  if (!tl) return { title: "", facts: [] };
  const { name, duration_ns, start_ns, kernel, op, lane } = tl.events;
  const facts: Facts = [[t("duration"), time(duration_ns[event] * 1e-9)], [t("starts at"), time((start_ns[event] - zero) * 1e-9)]];
  const held = heldBy(model, event);
  if (held) facts.push([t("waited for rank {rank}", { rank: held.last }), time(held.wait_ns * 1e-9)], [t("transfer"), time((duration_ns[event] - held.wait_ns) * 1e-9)]);
  const columns = tl.ops.columns, o = op[event];
  if (o >= 0 && columns.name[o] !== undefined) {
    facts.push([t("operator"), operatorLabel(tl.ops.names[columns.name[o]])]);
    const module = tl.ops.modules[columns.module[o]];
    if (module) facts.push([t("module"), module]);
    if (columns.phase[o]) facts.push([t("phase"), word(columns.phase[o]) + (columns.recomputed[o] ? ` (${t("recomputed")})` : "")]);
    const site = tl.ops.sites?.[columns.site?.[o] ?? -1];
    if (site) facts.push([t("source line"), site]);
    const shapes = (tl.ops.signatures[columns.signature[o]]?.inputs ?? []).map((s) => `${s.dtype} ${s.shape.join("×") || "1"}`);
    if (shapes.length) facts.push([t("inputs"), shapes.slice(0, 4).join(t(", ")) + (shapes.length > 4 ? " …" : "")]);
  }
  if (kernel[event] >= 0) facts.push(...kernelFacts(tl.kernels[kernel[event]]));
  facts.push(...recordedFacts(model, event));
  const where = tl.lanes[lane[event]];
  facts.push([t("lane"), where.name + (model.run.ranks.length > 1 ? ` · ${t("rank {rank}", { rank: where.rank })}` : "")]);
  return { title: tl.names[name[event]], facts };
}

function kernelFacts(k: KernelRow): Facts {
  const moved = k.read_bytes + k.written_bytes;
  const found: (false | [string, string])[] = [
    [t("family"), word(k.kind)],
    k.limiter !== "unknown" && [t("limited by"), word(k.limiter)],
    k.flops > 0 && [t("arithmetic"), `${flops(k.flops)}, ${flopRate(k.flops / k.duration_s)}`],
    moved > 0 && [t("traffic"), `${size(moved)}, ${byteRate(moved / k.duration_s)}`],
    k.lane === "compute" && k.grid > 0 && k.block > 0 && [t("blocks"), `${count(k.grid)} × ${k.block} ${t("threads")}`],
    k.tile.length > 0 && [t("tile"), k.tile.join("×")],
    k.waves > 0 && [t("waves"), digits(k.waves)],
    k.occupancy !== null && [t("occupancy"), percent(k.occupancy)],
    k.note !== "" && [t("note"), k.note],
  ];
  return found.filter((fact): fact is [string, string] => fact !== false);
}

/** What the recording itself says: bytes of a copy, registers, how long the work waited for the device. */
function recordedFacts(model: Model, event: number): Facts {
  const found: Facts = [], links = linksOf(model, event), own = links.find(([launch, work]) => work === event || launch === event);
  if (own && links.length === 1) {
    const waited = model.start[own[1]] - model.start[own[0]];
    found.push([t("from call to work"), time(waited * 1e-9)]);
  } else if (links.length > 1) found.push([t("work that it launched"), t("{n} launches", { n: links.length })]);
  const recorded = model.run.timeline?.recorded, at = recorded ? lower(recorded.event, event) : -1;
  if (!recorded || recorded.event[at] !== event) return found;
  if (recorded.nbytes?.[at] >= 0) {
    const seconds = (model.end[event] - model.start[event]) * 1e-9;
    found.push([t("bytes"), `${size(recorded.nbytes[at])}${seconds > 0 ? `, ${byteRate(recorded.nbytes[at] / seconds)}` : ""}`]);
  }
  if (recorded.registers?.[at] >= 0) found.push([t("registers a thread"), String(recorded.registers[at])]);
  if (recorded.shared_bytes?.[at] > 0) found.push([t("shared memory a block"), size(recorded.shared_bytes[at])]);
  return found;
}

function lower(sorted: readonly number[], value: number): number {
  let low = 0, high = sorted.length;
  while (low < high) { const middle = (low + high) >> 1; if (sorted[middle] < value) low = middle + 1; else high = middle; }
  return low;
}
