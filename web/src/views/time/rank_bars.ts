// Ranks beside each other: what each one's time is made of, in one bar a rank.

import { classColour, roleColour } from "../../core/colours";
import type { RankTime, Run } from "../../core/document";
import { type Child, h, pressable, tipped } from "../../core/dom";
import { percent, time } from "../../core/format";
import { t } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { asTable, table } from "../../core/panel";
import { deviceEvents } from "./belongs";

export interface RankParts { rank: number; span_s: number; compute_s: number; transfer_s: number; waiting_s: number; communication_s: number; copy_s: number; idle_s: number; times: RankTime }

/**
 * Parts of each rank's span that add up to it: computing, communication beside no computing (transfer and waiting
 * apart where other ranks tell, else in `communication_s`), copies beside neither, idle.
 */
export function rankParts(run: Run): RankParts[] {
  const stories: { rank: number; exposed_transfer_s: number; exposed_waiting_s: number }[] = run.analysis.ranks?.ranks ?? [];
  return Object.entries(run.analysis.time).map(([key, times]) => {
    const rank = Number(key), exposed = times.exposed_communication_s, story = stories.find((s) => s.rank === rank);
    const both = story ? story.exposed_transfer_s + story.exposed_waiting_s : 0, share = story && both > 0 ? story.exposed_waiting_s / both : null;
    return {
      rank, times, span_s: times.span_s, compute_s: times.compute_s, idle_s: times.idle_s,
      waiting_s: share === null ? 0 : exposed * share, transfer_s: share === null ? 0 : exposed * (1 - share), communication_s: share === null ? exposed : 0,
      copy_s: Math.max(0, times.busy_s - times.compute_s - exposed),
    };
  }).sort((a, b) => a.rank - b.rank);
}

interface Piece { key: keyof RankParts; label: string; colour: string; empty?: boolean }

const pieces = (): Piece[] => [
  { key: "compute_s", label: t("computing"), colour: roleColour("compute") },
  { key: "transfer_s", label: t("transfer, not hidden"), colour: classColour("communication: transfer") },
  { key: "waiting_s", label: t("waiting for another rank"), colour: classColour("communication: waiting for another rank") },
  { key: "communication_s", label: t("communication, not hidden"), colour: classColour("communication") },
  { key: "copy_s", label: t("copies, not hidden"), colour: roleColour("copy") },
  { key: "idle_s", label: t("idle"), colour: roleColour("idle"), empty: true },
];

/** One bar a rank; pressing one chooses its device work. */
export function rankBars(page: ReportPage): Child {
  const rows = rankParts(page.run);
  if (rows.length < 2) return null;
  const most = Math.max(...rows.map((r) => r.span_s)), shown = pieces().filter((p) => rows.some((r) => (r[p.key] as number) > 0));
  const bars = rows.map((row) => {
    const parts = shown.filter((p) => (row[p.key] as number) > 0);
    const words = parts.map((p) => `${p.label} ${time(row[p.key] as number)} (${percent((row[p.key] as number) / row.span_s)})`);
    const bar = h("div", { class: "tm-rank", "aria-label": `${t("rank {rank}", { rank: row.rank })}: ${words.join(t(", "))}` }, h("span", { class: "number" }, String(row.rank)),
      h("span", { class: "tm-stack", style: { width: `${(row.span_s / most) * 100}%` } }, parts.map((p) => h("i", { class: p.empty ? "tm-empty" : null, style: { width: `${((row[p.key] as number) / row.span_s) * 100}%`, "--part": p.colour } }))));
    tipped(bar, t("rank {rank}", { rank: row.rank }), [time(row.span_s), ...words]);
    return page.run.timeline ? pressable(bar, () => page.selections.choose(page.model, "ranks", t("rank {rank}", { rank: row.rank }), deviceEvents(page.model, row.rank, () => true))) : bar;
  });
  page.selections.on((selection) => bars.forEach((bar, i) => {
    bar.classList.toggle("unlit", selection !== null && !selection.ranks.has(rows[i].rank));
  }));
  return [
    h("div", { class: `tm-ranks${rows.length > 16 ? " many" : ""}` }, bars),
    h("ul", { class: "tm-legend" }, shown.map((p) => h("li", {}, h("i", { class: `swatch${p.empty ? " tm-empty" : ""}`, style: { "--part": p.colour }, "aria-hidden": "true" }), p.label))),
    asTable(() => rankTable(rows)),
  ];
}

const rankTable = (rows: RankParts[]): HTMLElement => table({
  caption: t("By rank"), rows, first: 16,
  columns: [
    { title: t("rank"), cell: (r) => String(r.rank), sort: (r) => -r.rank, text: true },
    { title: t("span"), cell: (r) => time(r.span_s), sort: (r) => r.span_s },
    { title: t("busy"), cell: (r) => time(r.times.busy_s), sort: (r) => r.times.busy_s },
    { title: t("computing"), cell: (r) => time(r.compute_s), sort: (r) => r.compute_s },
    { title: t("communication"), cell: (r) => time(r.times.communication_s), sort: (r) => r.times.communication_s },
    { title: t("not hidden"), cell: (r) => time(r.times.exposed_communication_s), sort: (r) => r.times.exposed_communication_s },
    { title: t("copies"), cell: (r) => time(r.times.copy_s), sort: (r) => r.times.copy_s },
    { title: t("idle"), cell: (r) => time(r.idle_s), sort: (r) => r.idle_s },
  ],
});
