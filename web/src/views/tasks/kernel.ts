// One kernel, deeply: what was asked, how it is split, what limits it, where its time goes.

import { drawBlock } from "../../blocks";
import { familyColour } from "../../core/colours";
import type { KernelRow, Run } from "../../core/document";
import { type Child, h } from "../../core/dom";
import { byteRate, count, flopRate, percent, time } from "../../core/format";
import { operatorLabel, t, word } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { latePanel } from "../../core/panel";
import type { Selection } from "../../core/selection";
import { fact } from "./bits";
import { type KernelGroup, kernelGroups, splitOf } from "./groups";
import { intensity, limiterSentence, timeParts, traffic } from "./kernel_pictures";
import { chooseGroup } from "./kernels";
import { moduleEvents } from "./lit";
import { type Filling, occupancyLimit } from "./waves";
import { waveMap } from "./wave_map";

const MOST_LISTED = 300;

/** The panel of one kernel: the selection's longest, else the step's longest. */
export function kernelPanel(page: ReportPage): HTMLElement | null {
  const groups = kernelGroups(page.model);
  if (!groups.some((group) => group.time_s > 0)) return null;
  return latePanel("kernel", t("One kernel, looked into"),
    t("The kernel that you chose anywhere on the page, or else the longest: what was asked of it, how it is cut into blocks and waves, and what sets its time."),
    () => {
      const body = h("div", { class: "kernel" });
      let shown: KernelGroup | null = null;
      page.selections.on((selection) => {
        const chosen = chosenGroups(groups, selection);
        const wanted = chosen[0] ?? shown ?? groups.find((group) => group.task !== null && group.kind !== "collective") ?? (groups[0] as KernelGroup);
        if (wanted === shown && selection !== null && chosen.length < 2) return;
        shown = wanted;
        body.replaceChildren(...parts(page, groups, wanted, chosen));
      });
      return body;
    }, 640);
}

/** Groups of the selection, longest first. */
export function chosenGroups(groups: readonly KernelGroup[], selection: Selection | null): KernelGroup[] {
  return selection ? groups.filter((group) => group.key !== "" && selection.groups.has(group.key)) : [];
}

function parts(page: ReportPage, groups: readonly KernelGroup[], group: KernelGroup, chosen: readonly KernelGroup[]): HTMLElement[] {
  const { run } = page, kernel = group.kernel;
  const { found, tiles, unsure } = splitOf(run, group);
  const unit = run.device?.compute_unit_label ?? "SM";
  const each_s = group.each_s;
  const blocks = run.kernels_explained[group.key] ?? [];
  return [
    chooser(page, groups, group, chosen), heading(group),
    facts(page, group, each_s, found),
    found ? waveMap(found, familyColour(group.kind), unit, each_s) : null,
    found && tiles && unsure ? persistentNote(group, found.pieces, tiles, unit) : null,
    kernel ? h("div", { class: "minis" }, timeParts(run, kernel, each_s), h("div", {}, traffic(kernel), intensity(run, kernel))) : null,
    blocks.length ? h("div", { class: "explained-blocks" }, h("h4", {}, t("In depth")), blocks.map(drawBlock)) : null,
  ].filter((part) => part !== null);
}

/** Chips of the chosen kernels where several are chosen, and a list of all. */
function chooser(page: ReportPage, groups: readonly KernelGroup[], group: KernelGroup, chosen: readonly KernelGroup[]): HTMLElement {
  const option = (g: KernelGroup) => h("option", { value: g.key, selected: g === group }, `${g.label} · ${time(g.time_s)}`);
  const listed = groups.filter((g) => g.key !== "" && (g.time_s > 0 || g === group)).slice(0, MOST_LISTED);
  const rest = listed.filter((g) => !chosen.includes(g));
  const list = h("select", { "aria-label": t("Kernel"), onchange: (e: Event) => {
    const found = groups.find((g) => g.key === (e.target as HTMLSelectElement).value);
    if (found) chooseGroup(page, found, "kernel");
  } }, chosen.length > 1 ? [h("optgroup", { label: t("chosen ({n})", { n: chosen.length }) }, chosen.map(option)), h("optgroup", { label: t("all others") }, rest.map(option))] : listed.map(option));
  return h("div", { class: "tools" }, list, chosen.length > 1 ? h("span", { class: "dim" }, t("{n} kernels are chosen; this is the longest of them.", { n: chosen.length })) : null);
}

function heading(group: KernelGroup): HTMLElement {
  const limiter = group.task?.limiter ?? group.kernel?.limiter ?? "unknown";
  return h("div", { class: "kernel-head", "aria-live": "polite" },
    h("p", { class: "kernel-name" }, h("i", { class: "swatch", style: { background: familyColour(group.kind) } }), h("b", {}, group.label), group.kernel ? h("code", {}, group.kernel.name) : null),
    limiter === "unknown" ? h("p", {}, notKnown(group.kind)) : h("p", { class: "limiter" }, h("span", { class: "tag" }, word(limiter)), limiterSentence(limiter)));
}

const notKnown = (kind: string): string =>
  kind === "collective" ? t("Its time is transfer and waiting for the other ranks; what limits it is between them.")
    : kind === "transfer" ? t("A copy: the way between the two memories sets its time.")
      : kind === "memset" ? t("It fills memory with one value.") : t("What limits it is not known: no model covers this kernel.");

function facts(page: ReportPage, group: KernelGroup, each_s: number, found: Filling | null): HTMLElement {
  const { run } = page, { kernel, task } = group;
  const step = run.analysis.step_s;
  const threads = kernel && kernel.block > 0 ? kernel.grid * kernel.block : null;
  const rate = kernel && kernel.flops > 0 && each_s > 0 ? kernel.flops / each_s : null;
  const moved = kernel ? kernel.read_bytes + kernel.written_bytes : 0;
  const peak = kernel ? run.analysis.roofline?.peak_flops_per_s[kernel.dtype] : null;
  const bandwidth = run.analysis.roofline?.memory_bandwidth_bytes_per_s;
  return h("dl", { class: "kernel-facts" },
    operatorFact(run, group), modulesFact(page, group),
    group.time_s === 0 ? fact(t("one launch"), time(each_s), t("outside the steps that were analysed")) : fact(t("time of a step"), time(group.time_s), `${percent(group.time_s / step)} · ${group.count === 1 ? t("one launch") : t("{n} launches of {time}", { n: count(group.count), time: time(each_s) })}`),
    kernel && kernel.lane === "compute" ? fact(t("grid × block"), `${count(kernel.grid)} × ${count(kernel.block)}`, threads ? t("{n} threads", { n: count(threads) }) : null) : null,
    kernel?.tile.length ? fact(t("tile of a block"), kernel.tile.join(" × "), t("rows × columns × depth")) : null,
    found ? fact(t("waves"), (found.pieces / found.slots).toFixed(found.waves < 10 ? 2 : 1)) : null,
    occupancyFact(run, kernel, task?.occupancy ?? null, found),
    fact(t("arithmetic rate"), rate === null ? null : flopRate(rate), rate !== null && peak ? t("{share} of the peak in {dtype}", { share: percent(rate / peak), dtype: kernel?.dtype ?? "" }) : null),
    fact(t("memory rate"), moved > 0 && each_s > 0 ? byteRate(moved / each_s) : null, moved > 0 && bandwidth ? t("{share} of the datasheet's", { share: percent(moved / each_s / bandwidth) }) : null),
    kernel ? fact(t("how we know"), run.origin === "measured" ? `${t("time")}${t(": ")}${t("measured")}${kernel.origin !== "measured" ? `, ${t("work and limits")}${t(": ")}${t(kernel.origin)}` : ""}` : t(kernel.origin)) : null,
    kernel?.note ? fact(t("note"), t(kernel.note)) : null);
}

/** Warps on a multiprocessor against the most that it holds, and what keeps more away. */
function occupancyFact(run: Run, kernel: KernelRow | null, occupancy: number | null, found: Filling | null): HTMLElement | null {
  if (occupancy === null || !kernel) return null;
  const { device } = run, most = device?.max_threads_per_unit ?? null;
  if (!found || !most || !(kernel.block > 0)) return fact(t("occupancy"), percent(occupancy));
  const limit = occupancyLimit({ threads: kernel.block, resident: found.resident, blocks: kernel.grid, slots: found.slots, mostThreads: most, mostBlocks: device?.max_blocks_per_unit ?? null, warp: device?.warp_size ?? 32 });
  const names = { grid: t("more would fit, but the grid has no more blocks"), threads: t("limited by the threads that fit"), blocks: t("limited by the block slots"), space: t("limited by registers or shared memory") };
  return fact(t("occupancy"), percent(occupancy), `${t("{blocks} × {threads} threads resident, room for {most}", { blocks: found.resident, threads: count(kernel.block), most: count(most) })}; ${names[limit]}`);
}

function operatorFact(run: Run, group: KernelGroup): HTMLElement | null {
  const ops = run.timeline?.ops, name = ops?.columns.name[group.op], at = ops?.columns.signature[group.op];
  if (!ops || name === undefined) return null;
  const signature = at === undefined ? undefined : ops.signatures[at];
  const shape = (tensor: { shape: number[]; dtype: string }) => `[${tensor.shape.join(", ")}] ${tensor.dtype}`;
  const list = (tensors: { shape: number[]; dtype: string }[]) => repeated(tensors.filter((x) => x.shape.length).map(shape)).slice(0, 6)
    .map(([text, times]): Child => [h("code", {}, text), times > 1 ? h("span", { class: "dim" }, ` ×${times}`) : null, " "]);
  const inputs = list(signature?.inputs ?? []), outputs = list(signature?.outputs ?? []);
  return h("div", { class: "wide" }, h("dt", {}, t("operator")), h("dd", {}, operatorLabel(ops.names[name] as string), " ",
    inputs.length ? [h("span", { class: "dim" }, t("inputs"), " "), inputs] : null, outputs.length ? [h("span", { class: "dim" }, ` ${t("outputs")} `), outputs] : null));
}

/** Equal texts that follow each other, with how many there are. */
export function repeated(texts: readonly string[]): [string, number][] {
  const found: [string, number][] = [];
  for (const text of texts) {
    const last = found.at(-1);
    if (last?.[0] === text) last[1] += 1;
    else found.push([text, 1]);
  }
  return found;
}

/** Modules in which it runs; pressing one chooses that module. */
function modulesFact(page: ReportPage, group: KernelGroup): HTMLElement | null {
  const { model } = page, times = new Map<number, number>();
  for (const event of model.eventsOfGroup(group.key)) {
    const m = model.moduleOf[event] as number;
    if (m >= 0) times.set(m, (times.get(m) ?? 0) + 1);
  }
  const paths = [...times].sort((a, b) => b[1] - a[1]).map(([m, n]) => [model.modules[m] as string, n] as const).filter(([path]) => path !== "");
  if (!paths.length) return null;
  const button = ([path, n]: readonly [string, number]) => h("button", { type: "button", class: "link", onclick: () => page.selections.choose(model, "kernel", path, moduleEvents(model, path)) }, path, h("span", { class: "dim" }, ` ×${n}`));
  return h("div", { class: "wide" }, h("dt", {}, t("runs in")), h("dd", { class: "runs-in" }, paths.slice(0, 4).map(button), paths.length > 4 ? h("span", { class: "dim" }, t("and {n} more modules", { n: paths.length - 4 })) : null));
}

/** A grid of one block a multiprocessor with a small tile works off several tiles. */
const persistentNote = (group: KernelGroup, blocks: number, tiles: [number, number], unit: string): HTMLElement =>
  h("p", { class: "remark" }, t("The result has {low} to {high} tiles of {tile} (by how the library lays them): each block stays on its {unit} and works off about {each} of them, one after the other, so the tail is not seen here.", {
    low: count(tiles[0]), high: count(tiles[1]), tile: (group.task?.tile ?? []).slice(0, 2).join(" × "), unit, each: (tiles[0] / blocks).toFixed(1) }));
