// Memory copies by direction: how much, how fast, and what hides them.

import { roleColour } from "../../core/colours";
import { h } from "../../core/dom";
import { byteRate, count, percent, size, time } from "../../core/format";
import { t } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { panel, table } from "../../core/panel";
import { barCell } from "./cells";
import { showMoment } from "./moment";
import { mainRank } from "./window";

interface Copies {
  direction: string; memory: string; count: number; time_s: number; exposed_s: number; total_bytes: number | null; median_bytes: number | null;
  largest_bytes: number | null; rate_bytes_per_s: number | null; link_bytes_per_s: number | null; longest_ns: number;
}

/** The panel; null without copies. */
export function copiesPanel(page: ReportPage): HTMLElement | null {
  const rows = (page.run.analysis.copies ?? []) as Copies[], tl = page.run.timeline;
  if (!rows.length) return null;
  const name = (c: Copies) => t(c.direction) + (c.memory ? ` (${t(c.memory)})` : "");
  const link = (c: Copies) => (c.rate_bytes_per_s && c.link_bytes_per_s ? c.rate_bytes_per_s / c.link_bytes_per_s : null);
  const length = (c: Copies) => {
    const at = tl ? tl.events.start_ns.findIndex((start, i) => start === c.longest_ns && tl.kinds[tl.events.kind[i]] === "memcpy") : -1;
    return tl && at >= 0 ? tl.events.duration_ns[at] * 1e-9 : 1e-6;
  };
  const known = (value: number | null, show: (v: number) => string) => (value === null ? t("not available") : show(value));
  return panel("copies", t("Memory copies"), t("Per step. Not hidden: with no kernel beside it. Press a row to see the longest such copy in the timeline."), table({
    caption: t("Memory copies"), rows,
    press: tl ? (c) => showMoment(page, "copies", name(c), c.longest_ns, length(c), mainRank(tl)) : undefined,
    columns: [
      { title: t("copies"), cell: (c) => h("span", { class: c.memory === "pageable" ? "some" : null, title: c.memory === "pageable" ? t("Pageable memory must first be copied into pinned memory: slower, and the host waits.") : null }, name(c)), sort: name, text: true },
      { title: t("time"), cell: (c) => time(c.time_s), sort: (c) => c.time_s },
      { title: t("not hidden"), cell: (c) => barCell(c.time_s > 0 ? c.exposed_s / c.time_s : 0, roleColour("copy"), time(c.exposed_s)), sort: (c) => c.exposed_s },
      { title: t("count"), cell: (c) => count(c.count), sort: (c) => c.count },
      { title: t("bytes"), cell: (c) => known(c.total_bytes, size), sort: (c) => c.total_bytes },
      { title: t("median size"), cell: (c) => known(c.median_bytes, size), sort: (c) => c.median_bytes },
      { title: t("rate"), cell: (c) => known(c.rate_bytes_per_s, byteRate), sort: (c) => c.rate_bytes_per_s },
      { title: t("of the link"), cell: (c) => { const share = link(c); return share === null ? "" : barCell(share, "var(--accent)", percent(share)); }, sort: link },
    ],
  }));
}
