// What the host did, in a recording without device work.

import { roleColour } from "../../core/colours";
import { count, percent, time } from "../../core/format";
import { operatorLabel, t } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { panel, table } from "../../core/panel";
import { barCell, named } from "./cells";

/** The panel; null where the device worked. */
export function hostPanel(page: ReportPage): HTMLElement | null {
  const rows = page.run.analysis.host, tl = page.run.timeline;
  if (!rows.length) return null;
  const total = rows.reduce((sum, row) => sum + row.time_s, 0), most = Math.max(...rows.map((row) => row.time_s));
  const events = (label: string) => (tl ? page.model.eventsWhere((i) => tl.names[tl.events.name[i]] === label) : []);
  return panel("host", t("What the host did"),
    t("No device work is in this recording: what follows is the host's story.") + " " + t("Each without what it calls in turn; all host threads together."),
    table({
      caption: t("What the host did"), rows, search: (row) => row.label,
      press: (row) => { const found = events(row.label); if (found.length) page.selections.choose(page.model, "host", operatorLabel(row.label), found); },
      columns: [
        { title: t("operator"), cell: (row) => named(operatorLabel(row.label)), sort: (row) => row.label, text: true },
        { title: t("time"), cell: (row) => time(row.time_s), sort: (row) => row.time_s },
        { title: t("share"), cell: (row) => barCell(row.time_s / most, roleColour("host"), percent(row.time_s / total)), sort: (row) => row.time_s },
        { title: t("calls"), cell: (row) => count(row.count), sort: (row) => row.count },
      ],
    }));
}
