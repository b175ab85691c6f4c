// How steps differ: a bar each, what was longer in the slow ones, and the spread by rank.

import { roleColour } from "../../core/colours";
import { axis, axisTip, chart } from "../../core/chart";
import { type Child, css, h } from "../../core/dom";
import { percent, time } from "../../core/format";
import { operatorLabel, t } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { asTable, latePanel, table } from "../../core/panel";
import { sub } from "./cells";
import { showMoment } from "./moment";
import { marksOf } from "./window";

interface Slow { number: number; time_s: number; extra_s: number; start_ns: number; parts: [string, number][]; causes: [string, number][] }
interface Spread { rank: number; times_s: number[]; median_s: number; mean_s: number; fastest_s: number; slowest_s: number; spread: number; slow: Slow[] }

const SLOW = 1.2, MOST = 400;

/** The panel; null with fewer than three steps. */
export function stepsPanel(page: ReportPage): HTMLElement | null {
  const ranks = (page.run.analysis.step_spread?.ranks ?? []) as Spread[], found = ranks[0];
  if (!found) return null;
  return latePanel("steps", t("How steps differ"), t("{n} steps: median {median}, {fastest} to {slowest}; the middle 80 % spread over {spread} of the median.",
    { n: found.times_s.length, median: time(found.median_s), fastest: time(found.fastest_s), slowest: time(found.slowest_s), spread: percent(found.spread) }),
    () => [bars(page, found), slowTable(page, found), ranksTable(ranks)]);
}

function bars(page: ReportPage, found: Spread): Child {
  const shown = found.times_s.slice(0, MOST), tl = page.run.timeline, marks = tl ? marksOf(tl, found.rank) : [];
  const drawn = chart({
    height: 200, label: t("How steps differ"),
    option: () => ({
      grid: { left: 64, right: 70, top: 30, bottom: 42 },
      tooltip: axisTip(([p]) => { const s = p.value as number; return [t("step {n}", { n: p.dataIndex }), `${time(s)} (${percent(s / found.median_s)} ${t("of the median")})`]; }),
      xAxis: { type: "category", data: shown.map((_, i) => i), name: t("step"), nameLocation: "middle", nameGap: 26, ...axis() },
      yAxis: { type: "value", name: t("time"), min: 0, ...axis({ axisLabel: { formatter: (v: number) => time(v), color: css("--soft"), fontSize: 11.5 } }) },
      series: [{ type: "bar", barMaxWidth: 42, cursor: marks.length ? "pointer" : "default",
        data: shown.map((s) => ({ value: s, itemStyle: { color: s > found.median_s * SLOW ? css("--warn") : roleColour("compute"), borderRadius: [3, 3, 0, 0] } })),
        markLine: { silent: true, symbol: "none", precision: 12, lineStyle: { color: css("--ink"), type: "dashed" }, data: [{ yAxis: found.median_s, label: { formatter: t("median"), color: css("--soft"), position: "end" } }] } }],
    }),
    ready: (instance) => instance.on("click", (e) => {
      const mark = marks[Number(e.dataIndex)];
      if (mark) showMoment(page, "steps", t("step {n}", { n: Number(e.dataIndex) }), mark.start_ns, (mark.end_ns - mark.start_ns) * 1e-9, found.rank);
    }),
  });
  return [drawn.element,
    found.times_s.length > MOST ? h("p", { class: "dim" }, t("The first {n} of {all} steps are drawn.", { n: MOST, all: found.times_s.length })) : null,
    asTable(() => table({
      caption: t("How steps differ"), rows: found.times_s.map((s, i) => ({ s, i })), first: 20,
      press: (r) => { const mark = marks[r.i]; if (mark) showMoment(page, "steps", t("step {n}", { n: r.i }), mark.start_ns, (mark.end_ns - mark.start_ns) * 1e-9, found.rank); },
      columns: [{ title: t("step"), cell: (r) => String(r.i), sort: (r) => -r.i, text: true }, { title: t("time"), cell: (r) => time(r.s), sort: (r) => r.s }],
    }))];
}

function slowTable(page: ReportPage, found: Spread): Child {
  if (!found.slow.length) return null;
  const causes = (s: Slow) => (s.causes.length ? s.causes : s.parts).slice(0, 3).map(([name, extra]) => `${t(operatorLabel(name))} +${time(extra)}`).join(t(", "));
  return [sub(t("Slow steps")), table({
    caption: t("Slow steps"), rows: found.slow, press: page.run.timeline ? (s) => showMoment(page, "steps", t("step {n}", { n: s.number }), s.start_ns, s.time_s, found.rank) : undefined,
    columns: [
      { title: t("slow step"), cell: (s) => String(s.number), sort: (s) => -s.number, text: true },
      { title: t("time"), cell: (s) => time(s.time_s), sort: (s) => s.time_s },
      { title: t("extra"), cell: (s) => time(s.extra_s), sort: (s) => s.extra_s },
      { title: t("what was longer"), cell: causes, sort: causes, text: true },
    ],
  })];
}

function ranksTable(ranks: Spread[]): Child {
  if (ranks.length < 2) return null;
  return [sub(t("By rank")), table({
    caption: t("By rank"), rows: ranks,
    columns: [
      { title: t("rank"), cell: (r) => String(r.rank), sort: (r) => -r.rank, text: true },
      { title: t("median"), cell: (r) => time(r.median_s), sort: (r) => r.median_s },
      { title: t("fastest"), cell: (r) => time(r.fastest_s), sort: (r) => r.fastest_s },
      { title: t("slowest"), cell: (r) => time(r.slowest_s), sort: (r) => r.slowest_s },
      { title: t("spread"), cell: (r) => percent(r.spread), sort: (r) => r.spread },
    ],
  })];
}
