// The device's own symbols of a recording.

import { familyColour } from "../../core/colours";
import type { Share } from "../../core/document";
import { h } from "../../core/dom";
import { count, percent, time } from "../../core/format";
import { t, word } from "../../core/language";
import { DEVICE_KINDS, type Model } from "../../core/model";
import type { ReportPage } from "../../core/page";
import { latePanel, table } from "../../core/panel";
import { bar } from "./bits";
import { litRows } from "./lit";

/** Device events of a symbol, shortened as the analysis shortens it. */
export function eventsOfSymbol(model: Model, symbol: string): number[] {
  const tl = model.run.timeline;
  if (!tl) return [];
  const kernels = tl.kernels.map((kernel) => kernel.name === symbol), names = tl.names.map((name) => name === symbol);
  return model.eventsWhere((i) => (tl.events.kind[i] as number) < DEVICE_KINDS && ((kernels[tl.events.kernel[i] as number] ?? false) || (names[tl.events.name[i] as number] ?? false)));
}

/** The panel of symbols; recordings only. */
export function symbolsPanel(page: ReportPage): HTMLElement | null {
  const rows = page.run.analysis.symbols ?? [];
  if (!rows.length) return null;
  const step = page.run.analysis.step_s, most = Math.max(...rows.map((s) => s.time_s));
  const groups = new Map<string, Set<string>>();
  for (const kernel of page.run.timeline?.kernels ?? []) groups.set(kernel.name, (groups.get(kernel.name) ?? new Set()).add(kernel.group));
  return latePanel("symbols", t("Symbols of the device"), t("The names under which the device itself ran the work, shortened; one symbol may serve several operators and shapes. Press a row to choose it on the whole page."),
    () => table({
      caption: t("Symbols of the device"), rows, first: 10, search: (s) => s.label,
      columns: [
        { title: t("symbol"), text: true, sort: (s) => s.label, cell: (s) => h("span", { class: "mono", title: s.label }, s.label) },
        { title: t("family"), text: true, sort: (s) => s.family, cell: (s) => (s.family ? word(s.family) : "") },
        { title: t("time"), sort: (s) => s.time_s, cell: (s) => time(s.time_s) },
        { title: t("of step"), sort: (s) => s.time_s, cell: (s) => bar(s.time_s / most, familyColour(s.family), percent(s.time_s / step)) },
        { title: t("launches"), sort: (s) => s.count, cell: (s) => count(s.count) },
        { title: t("each"), sort: (s) => (s.count ? s.time_s / s.count : null), cell: (s) => (s.count ? time(s.time_s / s.count) : "") },
      ],
      press: (s) => page.selections.choose(page.model, "symbols", s.label, eventsOfSymbol(page.model, s.label)),
      made: litRows<Share>(page, (s, selection) => (selection.from === "symbols" ? selection.title === s.label : [...(groups.get(s.label) ?? [])].some((group) => selection.groups.has(group)))),
    }), 300);
}
