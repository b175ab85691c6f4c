// Several runs beside each other; pressing one shows it.

import { h } from "../../core/dom";
import type { Run } from "../../core/document";
import { count, energy, missing, money, ratio, size, time } from "../../core/format";
import { classLabel, t, text } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { panel, table } from "../../core/panel";

export function sideBySidePanel(page: ReportPage): HTMLElement | null {
  const { runs } = page.report, names = page.report.names.map((name) => t(name));
  const refused = page.report.refused ?? [];
  if (runs.length < 2 && !refused.length) return null;
  const first = (runs[0] as Run).step_time_s, fastest = Math.min(...runs.map((r) => r.step_time_s).filter((s) => s > 0));
  const element = table<{ run: Run; i: number }>({
    caption: t("Side by side"), rows: runs.map((run, i) => ({ run, i })), first: 30, press: (row) => page.chooseRun(row.i),
    made: (tr, row) => { if (row.i === page.index) tr.classList.add("lit"); },
    columns: [
      { title: t("run"), text: true, cell: (x) => names[x.i] + mark(x.run), sort: (x) => names[x.i] as string },
      { title: t("step"), cell: (x) => time(x.run.step_time_s), sort: (x) => x.run.step_time_s },
      { title: t("interval"), cell: (x) => x.run.step_time_interval_s.map((v) => time(v)).join(" – ") },
      { title: t("speed"), sort: (x) => first / x.run.step_time_s, cell: (x) => [h("span", { class: "cellbar" }, h("i", { style: { width: `${(fastest / x.run.step_time_s) * 100}%`, background: x.run.evidence === "prior" ? HATCHED : "var(--accent)" } })), " ", ratio(first / x.run.step_time_s)] },
      { title: t("tokens/s"), cell: (x) => count(x.run.figures.tokens_per_s), sort: (x) => x.run.figures.tokens_per_s },
      { title: t("peak memory"), cell: (x) => size(x.run.peak_memory_bytes), sort: (x) => x.run.peak_memory_bytes },
      { title: t("fits?"), cell: (x) => fits(x.run) },
      { title: t("energy a step"), cell: (x) => energy(x.run.energy_j), sort: (x) => x.run.energy_j },
      { title: t("$/M tokens"), cell: (x) => money(x.run.figures.usd_per_million_tokens), sort: (x) => x.run.figures.usd_per_million_tokens },
      { title: t("mostly"), text: true, cell: (x) => (missing(x.run.step_time_s) || !x.run.figures.limiter ? t("not available") : classLabel(x.run.figures.limiter)) },
    ],
  });
  return panel("devices", t("Side by side"), t("Ratios are to {first}: 2.00× takes half the time.", { first: names[0] as string }) + " " + t("Press a row to see that run."), h("div", {}, element, ...notes(runs), ...refused.map((each) => h("p", { class: "res-note" }, h("b", {}, each.device_id), t(": "), h("span", { class: "lost" }, t(each.what)), " ", t(each.why)))));
}

/** A device that nobody measured has no solid bar: its length is a prior. */
const HATCHED = "repeating-linear-gradient(135deg, var(--accent) 0 2px, transparent 2px 5px)";
const MARKS: Record<string, [string, string]> = {
  carried: ["~", text("~ not measured itself: constants are carried over from its maker's devices.")],
  prior: ["†", text("† no device of its maker was measured: a prior with a wide interval, no finding.")],
};

const mark = (run: Run): string => (run.evidence && MARKS[run.evidence] ? ` ${(MARKS[run.evidence] as [string, string])[0]}` : "");

function notes(runs: Run[]): HTMLElement[] {
  return Object.entries(MARKS).filter(([kind]) => runs.some((run) => run.evidence === kind)).map(([, [, said]]) => h("p", { class: "res-note" }, t(said)));
}

function fits(run: Run): HTMLElement {
  if (run.fits === null) return h("span", { class: "dim" }, t("not available"));
  return run.fits ? h("span", { class: "ok" }, t("yes")) : h("span", { class: "lost" }, t("{size} too much", { size: size(run.analysis.memory?.missing_bytes ?? null) }));
}
