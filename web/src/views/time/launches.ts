// Launches and their queue: whether the host stays ahead of the device.

import { roleColour } from "../../core/colours";
import { axis, axisTip, chart } from "../../core/chart";
import { type Child, css, h } from "../../core/dom";
import { count, digits, percent, time } from "../../core/format";
import { t } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { asTable, latePanel, table } from "../../core/panel";
import { sub } from "./cells";
import { axisTime } from "./draw";

interface Launches {
  count: number; rate_per_s: number; kernels: number; unlinked: number; call_median_s: number; call_total_s: number; call_full_s?: number; latency_median_s: number | null;
  latency_empty_median_s: number | null; empty_share: number | null; short_kernels: number; short_share: number | null; queue_mean: number | null;
  queue_max: number | null; queue_time_s: number[]; queue_depth: number[]; graph_launches: number; kernels_per_graph: number | null;
  threads: { thread: string; count: number; time_s: number }[];
}

/** The panel; null where nothing was launched (work of the host itself). */
export function launchesPanel(page: ReportPage): HTMLElement | null {
  const found = page.run.analysis.launches as Launches | null;
  if (!found?.count) return null;
  return latePanel("launches", t("Launches and their queue"),
    t("A host that stays ahead keeps a queue of launched work; an empty queue means that the device waits for the host."), () => [facts(found), queue(found), threads(found)]);
}

function facts(l: Launches): HTMLElement {
  const fact = (label: string, value: string, note: string | null = null): Child => h("div", {}, h("dt", {}, label), h("dd", {}, value, note ? h("span", { class: "dim" }, ` ${note}`) : null));
  return h("dl", { class: "facts" },
    fact(t("Launches a step"), count(l.count), t("{rate} a second while it launches", { rate: count(l.rate_per_s) })),
    fact(t("A launch call"), time(l.call_median_s), t("{time} a step in all", { time: time(l.call_total_s) }) + (l.call_full_s ? t(", {time} of that waiting for room in the full queue", { time: time(l.call_full_s) }) : "")),
    l.latency_median_s === null ? null : fact(t("From call to work"), time(l.latency_median_s),
      l.latency_empty_median_s === null ? null : t("{time} where nothing was queued", { time: time(l.latency_empty_median_s) })),
    l.queue_mean === null ? null : fact(t("Queue"), t("{mean} on average, {most} at most", { mean: digits(l.queue_mean), most: count(l.queue_max) }),
      l.empty_share === null ? null : t("{share} of the launches found it empty", { share: percent(l.empty_share) })),
    l.graph_launches ? fact("CUDA Graphs", t("{n} of CUDA graphs with {each} kernels each", { n: count(l.graph_launches), each: count(l.kernels_per_graph) })) : null,
    l.unlinked ? fact(t("Not linked"), t("{n} device events without a known launch", { n: count(l.unlinked) })) : null,
    l.short_share === null ? null : fact(t("Short kernels"), t("{share} of the kernels are shorter than their own launch call", { share: percent(l.short_share) })));
}

/** Work launched and not yet begun, over the window. */
function queue(l: Launches): Child {
  const { queue_depth: depth, queue_time_s: times } = l;
  if (depth.length < 2 || !Math.max(...depth)) return null;
  const span = (times[times.length - 1] - times[0]) * 1e9, title = t("launched and not yet begun, over the window");
  const drawn = chart({
    height: 190, label: title,
    option: () => ({
      grid: { left: 46, right: 30, top: 34, bottom: 42 },
      tooltip: axisTip((points) => { const [at, n] = points[0].value as [number, number]; return [time(at), t("{n} launches waiting", { n })]; }),
      xAxis: { type: "value", min: times[0], max: times[times.length - 1], name: t("time into the window"), nameLocation: "middle", nameGap: 26,
        ...axis({ splitLine: { show: false }, axisLabel: { formatter: (v: number) => axisTime(v * 1e9, span), showMaxLabel: false, hideOverlap: true, color: css("--soft"), fontSize: 11.5 } }) },
      yAxis: { type: "value", name: t("launches in the queue"), minInterval: 1, ...axis({ nameTextStyle: { align: "left", color: css("--soft"), fontSize: 12 } }) },
      series: [{ type: "line", step: "end", symbol: "none", data: depth.map((v, i) => [times[i], v]), lineStyle: { width: 1.4, color: roleColour("launch") }, areaStyle: { color: roleColour("launch"), opacity: 0.2 } }],
    }),
  });
  return [drawn.element, asTable(() => table({
    caption: title, rows: depth.map((n, i) => ({ n, at: times[i] })), first: 20,
    columns: [{ title: t("time into the window"), cell: (r) => time(r.at), sort: (r) => r.at }, { title: t("launches in the queue"), cell: (r) => count(r.n), sort: (r) => r.n }],
  }))];
}

function threads(l: Launches): Child {
  if (l.threads.length < 2) return null;
  return [sub(t("Which host thread launched")), table({
    caption: t("Which host thread launched"), rows: l.threads,
    columns: [
      { title: t("thread"), cell: (x) => x.thread, sort: (x) => x.thread, text: true },
      { title: t("launches"), cell: (x) => count(x.count), sort: (x) => x.count },
      { title: t("time in the calls"), cell: (x) => time(x.time_s), sort: (x) => x.time_s },
    ],
  })];
}
