// Use over the step as tables: its means by phase, and what each curve of the timeline means.

import { h } from "../../core/dom";
import type { UseOverTime } from "../../core/document";
import { time } from "../../core/format";
import { t, word } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { table } from "../../core/panel";
import { limitOrigin, means, total, unitMeaning, unitName, value } from "./units";
import { eventsWithin } from "../time/moment";

/** The units over the whole step and over each phase; pressing a row chooses it. */
export function phaseTable(page: ReportPage, use: UseOverTime): HTMLElement {
  const whole = { name: t("the whole step"), from: use.start_ns, to: use.end_ns };
  const rows = [whole, ...use.phases.map((p) => ({ name: word(p.name), from: p.start_ns, to: p.end_ns }))].map((r) => ({ ...r, means: means(use, r.from, r.to) }));
  return h("div", {},
    table({
      caption: t("Use over the step"), rows, press: (r) => page.selections.choose(page.model, "use", r.name, eventsWithin(page.model, r.from, r.to, new Set([use.rank])), { range: [r.from, r.to] }),
      columns: [
        { title: t("stretch"), cell: (r) => r.name, text: true },
        { title: t("time"), cell: (r) => time((r.to - r.from) * 1e-9), sort: (r) => r.to - r.from },
        ...use.series.map((series, i) => ({
          title: unitName(series.key, page.run.device?.compute_unit_label), sort: (r: (typeof rows)[number]) => r.means[i]?.mean ?? null,
          cell: (r: (typeof rows)[number]) => value(series, r.means[i]?.mean),
        })),
      ],
    }),
    table({
      caption: t("What the curves mean"), rows: use.series,
      columns: [
        { title: t("unit"), cell: (s) => unitName(s.key, page.run.device?.compute_unit_label), text: true },
        { title: t("what is counted"), cell: (s) => unitMeaning(s.key) + (s.is_least ? t(" (at least)") : ""), text: true },
        { title: t("in the step"), cell: total },
        { title: t("limit"), cell: (s) => (s.unit === "share" ? "" : `${value(s, s.limit)}${limitOrigin(s) ? ` (${limitOrigin(s)})` : ""}`) },
        { title: t("origin"), cell: (s) => t(s.origin), text: true },
      ],
    }));
}
