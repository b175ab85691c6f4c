// Ranks: what each one's time is made of, who waits for whom and why, and the collectives.

import { roleColour } from "../../core/colours";
import { type Child, h } from "../../core/dom";
import { byteRate, count, percent, size, time } from "../../core/format";
import { operatorLabel, t } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { latePanel, table } from "../../core/panel";
import { barCell, named, sub } from "./cells";
import { type Call, meeting } from "./meeting";
import { showMoment } from "./moment";
import { rankBars } from "./rank_bars";
import { waitsMatrix } from "./waits_matrix";

interface Share { rank: number; compute_s: number; transfer_s: number; waiting_s: number; caused_s: number; times_last: number; host_s: number | null; clock_offset_s: number | null }
interface Sort { name: string; group_size: number | null; dtype: string; count: number; message_bytes: number | null; time_s: number; transfer_s: number; waiting_s: number | null; bus_bytes_per_s: number | null; is_lower_bound: boolean }
interface Story { ranks: Share[]; calls: Call[]; sorts: Sort[]; sentence: string; waiting_by_reason: Record<string, number> }

/** The panel; null for a single rank without communication. */
export function ranksPanel(page: ReportPage): HTMLElement | null {
  const { analysis } = page.run;
  // Of a predicted job "The job" tells what each rank moves and waits for; matching the recorded way
  // takes for waiting what ranks exchange with those that they stand for.
  const sorts = (analysis.communication?.sorts ?? []) as Sort[];
  if (analysis.job) return sorts.length ? latePanel("ranks", t("Communication"), null, () => [overlap(analysis.communication), sortsTable(sorts)]) : null;
  const story = analysis.ranks as Story | null;
  const several = Object.keys(analysis.time).length > 1;
  if (!several && !sorts.length) return null;
  if (!several) return latePanel("ranks", t("Communication"), t("One rank alone: what a collective takes beyond the time that its bytes need is taken as waiting for other ranks; bandwidths are lower bounds."), () => [overlap(analysis.communication), sortsTable(sorts)]);
  const about = t("One bar a rank, from its first to its last device event; parts do not overlap. Press a bar to choose that rank.");
  return latePanel("ranks", t("Ranks beside each other"), about, () => [
    story?.sentence ? h("p", { class: "story" }, t(story.sentence)) : null,
    rankBars(page),
    story ? waiting(page, story) : sorts.length ? h("div", { class: "tm-below" }, sub(t("Collectives of the first rank")), sortsTable(sorts)) : null,
  ]);
}

function waiting(page: ReportPage, story: Story): Child {
  return h("div", { class: "tm-below" },
    sub(t("Who waits for whom")),
    h("p", { class: "about" }, t("A collective ends when its last rank has come: what the shortest of its kernels takes is transfer, the rest is waiting for that rank.")),
    reasons(story), calls(page, story), sharesTable(story.ranks),
    story.sorts.length ? [sub(t("By collective")), sortsTable(story.sorts)] : null);
}

/** Why the last rank was last, over all matched collectives. */
function reasons(story: Story): Child {
  const rows = Object.entries(story.waiting_by_reason).sort((a, b) => b[1] - a[1]);
  return rows.length ? h("ul", { class: "tm-legend" }, rows.map(([reason, s]) => h("li", {}, h("b", {}, t(reason)), time(s)))) : null;
}

function calls(page: ReportPage, story: Story): Child {
  const list = story.calls;
  if (!list.length) return null;
  const waited = (c: Call) => c.waits_s.reduce((sum, s) => sum + s, 0);
  const because = (c: Call) => t(c.reason) + (c.instead ? ` · ${operatorLabel(c.instead)} ${time(c.instead_s)}` : "");
  const place = h("div", {}, meeting(list.reduce((a, b) => (waited(b) > waited(a) ? b : a))));
  const elements = new Map<Call, HTMLElement>();
  const show = (call: Call) => {
    place.replaceChildren(meeting(call));
    elements.forEach((row, other) => row.classList.toggle("lit", other === call));
    showMoment(page, "ranks", `${call.name} #${call.number}`, call.start_ns, Math.max(...call.waits_s) + call.transfer_s, call.last);
  };
  return [
    h("div", { class: "tm-two" }, place, waitsMatrix(list)),
    sub(t("most waiting in")),
    table({
      caption: t("most waiting in"), rows: list, first: 8, press: page.run.timeline ? show : undefined, made: (element, call) => elements.set(call, element),
      columns: [
        { title: t("collective"), cell: (c) => named(`${c.name} #${c.number}`), sort: (c) => c.name, text: true },
        { title: t("waiting"), cell: (c) => time(waited(c)), sort: waited },
        { title: t("transfer"), cell: (c) => time(c.transfer_s), sort: (c) => c.transfer_s },
        { title: t("last rank"), cell: (c) => String(c.last), sort: (c) => c.last },
        { title: t("late by"), cell: (c) => time(c.late_s), sort: (c) => c.late_s },
        { title: t("because"), cell: because, sort: because, text: true },
      ],
    }),
  ];
}

function sharesTable(rows: Share[]): Child {
  const most = Math.max(...rows.map((x) => x.caused_s), 0);
  const signed = (s: number) => (s < 0 ? "−" : "+") + time(Math.abs(s));
  return [sub(t("By rank")), table({
    caption: t("By rank"), rows, first: 16,
    columns: [
      { title: t("rank"), cell: (x) => String(x.rank), sort: (x) => -x.rank, text: true },
      { title: t("computing"), cell: (x) => time(x.compute_s), sort: (x) => x.compute_s },
      { title: t("transfer"), cell: (x) => time(x.transfer_s), sort: (x) => x.transfer_s },
      { title: t("waiting"), cell: (x) => time(x.waiting_s), sort: (x) => x.waiting_s },
      { title: t("made others wait"), cell: (x) => barCell(most ? x.caused_s / most : 0, roleColour("bad"), time(x.caused_s)), sort: (x) => x.caused_s },
      { title: t("came last"), cell: (x) => count(x.times_last), sort: (x) => x.times_last },
      { title: t("host, a step"), cell: (x) => time(x.host_s), sort: (x) => x.host_s },
      { title: t("clock"), cell: (x) => (x.clock_offset_s === null ? t("not available") : signed(x.clock_offset_s)), sort: (x) => x.clock_offset_s },
    ],
  })];
}

/** How much of the communication runs beside computation. */
function overlap(talk: { busy_s: number; exposed_s: number } | null | undefined): HTMLElement | null {
  if (!talk || !(talk.busy_s > 0)) return null;
  return h("p", { class: "story" }, t("Communication runs for {busy}, {share} of it beside computation; {exposed} is not hidden.", { busy: time(talk.busy_s), share: percent(1 - talk.exposed_s / talk.busy_s), exposed: time(talk.exposed_s) }));
}

function sortsTable(sorts: Sort[]): HTMLElement {
  const known = (value: number | null, show: (v: number) => string) => (value === null ? t("not available") : show(value));
  return table({
    caption: t("Communication"), rows: sorts, first: 10,
    columns: [
      { title: t("collective"), cell: (s) => named(`${s.name}${s.group_size ? ` ×${s.group_size}` : ""} ${s.dtype}`), sort: (s) => s.name, text: true },
      { title: t("count"), cell: (s) => count(s.count), sort: (s) => s.count },
      { title: t("message"), cell: (s) => known(s.message_bytes, size), sort: (s) => s.message_bytes },
      { title: t("time"), cell: (s) => time(s.time_s), sort: (s) => s.time_s },
      { title: t("transfer, each"), cell: (s) => time(s.transfer_s), sort: (s) => s.transfer_s },
      { title: t("waiting"), cell: (s) => known(s.waiting_s, time), sort: (s) => s.waiting_s },
      { title: t("bus bandwidth"), cell: (s) => known(s.bus_bytes_per_s, (v) => (s.is_lower_bound ? "≥ " : "") + byteRate(v)), sort: (s) => s.bus_bytes_per_s },
    ],
  });
}
