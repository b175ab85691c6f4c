// Tables: operators (sorted, searched), runs side by side, notes.

/** A column: title, value for sorting, cell content, and whether it is text. */
const column = (title, value, show, kind = "") => ({ title, value, show, kind });

/** A table whose headings sort it. Rows may be pressed. */
function sortable(columns, rows, { sort = 1, limit = 15, press = null, selected = () => false, filter = null } = {}) {
  const box = h("div");
  let by = sort, down = true, all = false;
  const render = () => {
    const wanted = filter ? rows.filter(filter) : rows;
    const key = columns[by].value;
    const ordered = [...wanted].sort((a, b) => compareValues(key(a), key(b)) * (down ? -1 : 1));
    const shown = all ? ordered : ordered.slice(0, limit);
    const head = h("tr", {}, columns.map((c, i) => h("th", { scope: "col", class: c.kind ? "l" : "", "aria-sort": i === by ? (down ? "descending" : "ascending") : null },
      h("button", { type: "button", onclick: () => { down = i === by ? !down : !c.kind; by = i; render(); } }, c.title))));
    const body = shown.map((row) => {
      const cells = columns.map((c, i) => h(i === 0 ? "th" : "td", { class: c.kind, scope: i === 0 ? "row" : null, title: c.kind === "name" ? String(c.value(row)) : null }, c.show(row)));
      const line = h("tr", { "aria-selected": selected(row) ? "true" : null, tabindex: press ? "0" : null }, cells);
      return press ? pressable(line, () => { press(row); render(); }) : line;
    });
    box.replaceChildren(h("div", { class: "scroll" }, h("table", {}, h("thead", {}, head), h("tbody", {}, body))),
      ordered.length > limit ? h("button", { class: "more", type: "button", onclick: () => { all = !all; render(); } },
        all ? t("Show fewer") : t("Show all {n}", { n: ordered.length })) : "");
  };
  render();
  box.refresh = render;
  return box;
}

function compareValues(a, b) {
  if (typeof a === "string") return -a.localeCompare(b);
  return (a ?? -Infinity) - (b ?? -Infinity);
}

/** A small bar with its figure behind it. */
const barCell = (share, colour, text) => [
  h("span", { class: "cellbar" }, h("i", { style: { width: `${Math.min(100, share * 100)}%`, background: colour } })),
  h("span", { class: "after" }, text)];

function operatorsPanel() {
  const a = run().analysis;
  if (!a.operators.length) return null;
  const step = a.step_s, best = (o) => (o.best_s ? o.time_s / o.best_s : null);
  let needle = "";
  const table = sortable([
    column(t("operator"), (o) => operatorLabel(o.label), (o) => operatorLabel(o.label), "name"),
    column(t("time"), (o) => o.time_s, (o) => time(o.time_s)),
    column(t("of step"), (o) => o.time_s, (o) => barCell(o.time_s / a.operators[0].time_s, "var(--accent)", percent(o.time_s / step))),
    column(t("calls"), (o) => o.count, (o) => count(o.count)),
    column(t("arithmetic"), (o) => o.flops / o.time_s, (o) => (o.flops > 0 && o.time_s > 0 ? flopRate(o.flops / o.time_s) : "")),
    column(t("traffic"), (o) => o.moved_bytes / o.time_s, (o) => (o.moved_bytes > 0 && o.time_s > 0 ? byteRate(o.moved_bytes / o.time_s) : "")),
    column(t("limited by"), (o) => o.limiter, (o) => (o.limiter ? word(o.limiter) : ""), "l"),
    column(t("× best"), best, (o) => (best(o) === null ? "" : best(o) > 100 ? "> 100×" : ratio(best(o)))),
  ], a.operators, {
    press: (o) => timeline?.selectOperator(o.label),
    selected: (o) => timeline?.operatorName() === o.label,
    filter: (o) => o.label.toLowerCase().includes(needle),
  });
  redraws.push(table.refresh);
  const search = h("input", { type: "search", placeholder: t("Search"), "aria-label": t("Search operators"),
    oninput: (e) => { needle = e.target.value.toLowerCase(); table.refresh(); } });
  const panel = section("operators", t("Operators"),
    t("× best: how many times longer than the device could do it at its peak arithmetic and memory rates.") + " " + t("Press a row to find it in the timeline."),
    h("div", { class: "tools" }, search), table);
  panel.classList.add("long");
  return panel;
}

function sideBySidePanel() {
  const runs = DATA.runs;
  if (runs.length < 2) return null;
  const fastest = Math.min(...runs.map((r) => r.step_time_s)), first = runs[0].step_time_s;
  const rows = runs.map((r, i) => ({ r, i }));
  const table = sortable([
    column(t("device"), (x) => x.r.target, (x) => x.r.target, "l"),
    column(t("step"), (x) => x.r.step_time_s, (x) => time(x.r.step_time_s)),
    column(t("80 % interval"), (x) => x.r.step_time_interval_s[0], (x) => x.r.step_time_interval_s.map(time).join(" – ")),
    column(t("speed"), (x) => first / x.r.step_time_s, (x) => barCell(fastest / x.r.step_time_s, "var(--accent)", ratio(first / x.r.step_time_s))),
    column(t("tokens/s"), (x) => x.r.figures.tokens_per_s, (x) => count(x.r.figures.tokens_per_s)),
    column(t("peak memory"), (x) => x.r.peak_memory_bytes, (x) => size(x.r.peak_memory_bytes)),
    column(t("fits?"), (x) => Number(x.r.fits), (x) => fitsCell(x.r)),
    column(t("energy a step"), (x) => x.r.energy_j, (x) => energy(x.r.energy_j)),
    column(t("$/M tokens"), (x) => x.r.figures.usd_per_million_tokens, (x) => money(x.r.figures.usd_per_million_tokens)),
    column(t("mostly"), (x) => x.r.figures.limiter, (x) => classLabel(x.r.figures.limiter), "l"),
  ], rows, { limit: 30, press: (x) => chooseRun(x.i), selected: (x) => x.i === state.run });
  return section("devices", t("Side by side"), t("Ratios are to {first}: 2.00× takes half the time.", { first: runs[0].target }) + " " + t("Press a row to see that run."), table);
}

function fitsCell(r) {
  if (r.fits === null) return h("span", { class: "dim" }, t("not available"));
  return r.fits ? h("span", { class: "ok" }, t("yes"))
    : h("span", { class: "lost" }, t("{size} too much", { size: size(r.analysis.memory?.missing_bytes ?? null) }));
}

const FIELD_LABELS = { step_time_s: "step time", device_busy_s: "device time", host_busy_s: "host time",
  peak_memory_bytes: "peak memory", reserved_memory_bytes: "reserved memory", energy_j: "energy" };
const ORIGINS = {
  measured: "Read on a real device.",
  calibrated: "Computed with constants measured on this kind of device.",
  datasheet: "Computed with the vendor's figures.",
  estimated: "Computed with constants carried over from other devices.",
  "what-if": "Computed with figures that you changed.",
};

function notesPanel() {
  const r = run(), grouped = {};
  const told = (sentence) => (state.lang === "zh" && r.sentences_zh[sentence]) || sentence;
  for (const [field, origin] of Object.entries(r.origins)) (grouped[origin] ??= []).push(t(FIELD_LABELS[field] ?? field));
  const origins = Object.entries(grouped).map(([origin, fields]) =>
    h("p", {}, h("b", {}, t(origin)), t(": "), fields.join(t(", ")), t(". "), h("span", { class: "dim" }, t(ORIGINS[origin] ?? ""))));
  if (r.analysis.energy && !(isRecording(r) && r.energy_j === null)) origins.push(h("p", {}, h("b", {}, t("energy")), t(": "), told(r.analysis.energy.source)));
  if (r.analysis.utilisation) origins.push(h("p", {}, h("b", {}, "MFU"), t(": "), told(r.analysis.utilisation.definition)));
  return section("notes", t("Assumptions and origins"), null,
    r.assumptions.length ? h("ul", { class: "notes" }, r.assumptions.map((line) => h("li", {}, told(line)))) : null,
    origins.length ? [h("h3", {}, t("Where the figures come from")), h("div", { class: "origins" }, origins)] : null);
}
