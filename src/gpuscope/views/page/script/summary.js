// The headline, what to change first, and the breakdowns.

function headline() {
  const r = run();
  return h("div", { id: "summary" },
    h("h1", {}, r.name),
    h("p", { class: "where" }, h("span", { class: "tag" }, t(r.origin)), h("b", {}, r.target)),
    h("dl", { class: "figures" }, missing(r.step_time_s) ? null : stepFigure(r), ...otherFigures(r)),
    r.fits === false ? h("p", { class: "alarm", role: "alert" }, doesNotFit(r)) : null);
}

/** A recording made elsewhere cannot hold an energy or a throughput; a run measured or predicted could. */
function otherFigures(r) {
  const bare = isRecording(r);
  return [bare && r.tokens === null && r.samples === null ? null : throughputFigure(r), memoryFigure(r),
    bare && r.energy_j === null ? null : energyFigure(r), bare && !r.analysis.utilisation ? null : mfuFigure(r)];
}

function figure(label, value, notes, extra = null, kind = "") {
  const known = value === t("not available") ? "none" : "";
  return h("div", { class: `figure ${kind} ${known}` }, h("dt", {}, label), h("dd", {}, value),
    extra, notes.filter(Boolean).map((note) => h("p", {}, note)));
}

function stepFigure(r) {
  const [low, high] = r.step_time_interval_s;
  const note = isRecording(r) ? recordedSteps(r) : low < high ? intervalOf(r, low, high) : null;
  return figure(t("Step time"), time(r.step_time_s), [note], null, "main");
}

function intervalOf(r, low, high) {
  const ends = { low: time(low), high: time(high) }, confidence = r.measurement?.confidence;
  return missing(confidence) ? t("80 % sure: {low} to {high}", ends)
    : t("median; {share} interval: {low} to {high}", { share: percent(confidence), ...ends });
}

/** Whether the run was read from what somebody recorded, not measured by gpuscope. */
const isRecording = (r) => r.origin === "measured" && !r.measurement && Boolean(r.timeline?.sources?.length);

/** Where the step time of a recording comes from. */
function recordedSteps(r) {
  const n = r.timeline.steps.filter((s) => s.rank === r.ranks[0]).length, [low, high] = r.step_time_interval_s;
  if (!n) return t("the whole recording; no step is marked");
  if (low === high) return t("median of {n} marked step(s)", { n });
  const mean = r.analysis.step_s, differs = Math.abs(mean - r.step_time_s) > 0.02 * r.step_time_s;
  return t("median of {n} steps; the middle 80 %: {low} to {high}", { n, low: time(low), high: time(high) })
    + (differs ? t("; ") + t("mean {time}", { time: time(mean) }) : "");
}

function throughputFigure(r) {
  const tokens = r.figures.tokens_per_s, samples = r.figures.samples_per_s;
  const both = tokens !== null && samples !== null;
  const value = tokens ?? samples;
  return figure(t("Throughput"), count(value), [
    missing(value) ? null : tokens !== null ? t("tokens/s") : t("samples/s"),
    both ? t("{rate} samples/s", { rate: count(samples) }) : null,
  ]);
}

function memoryFigure(r) {
  const memory = r.analysis.memory, capacity = memory?.capacity_bytes ?? null;
  const share = capacity && r.peak_memory_bytes !== null ? r.peak_memory_bytes / capacity : null;
  const style = r.fits === false ? "bad" : share > 0.9 ? "warn" : "";
  const gauge = share === null ? null
    : h("div", { class: "gauge" }, h("i", { class: style, style: { width: `${Math.min(100, share * 100)}%` } }));
  return figure(t("Peak memory"), size(r.peak_memory_bytes), [
    share === null ? null : t("{share} of {size}", { share: percent(share), size: size(capacity) }),
    r.reserved_memory_bytes === null ? null : t("reserved {size}", { size: size(r.reserved_memory_bytes) }),
  ], gauge);
}

function energyFigure(r) {
  const parts = r.analysis.energy, f = r.figures;
  return figure(t("Energy a step"), energy(r.energy_j), [
    parts?.average_w ? t("{power} on average", { power: power(parts.average_w) }) : null,
    f.usd_per_million_tokens !== null ? t("{money} a million tokens", { money: money(f.usd_per_million_tokens) })
      : f.usd_per_step !== null ? t("{money} a step", { money: money(f.usd_per_step) }) : null,
  ]);
}

function mfuFigure(r) {
  const used = r.analysis.utilisation;
  const shown = figure("MFU", percent(used?.mfu ?? null), [
    used?.peak_flops_per_s ? t("{rate} of {peak}", { rate: flopRate(used.model_flops / r.step_time_s), peak: flopRate(used.peak_flops_per_s) }) : null,
    used?.hfu && Math.abs(used.hfu - used.mfu) > 1e-4 ? `HFU ${percent(used.hfu)}` : null,
  ]);
  if (used) shown.title = used.definition;
  return shown;
}

function doesNotFit(r) {
  const missingBytes = r.analysis.memory?.missing_bytes;
  return missingBytes ? t("Does not fit: {size} too much.", { size: size(missingBytes) }) : t("Does not fit.");
}

function findingsPanel() {
  const list = run().analysis.findings;
  if (!list.length) return noFindings();
  const zh = state.lang === "zh";
  return section("findings", t("What to change first"), null, h("ol", { class: "findings" }, list.map((f) =>
    h("li", {}, gainOf(f), h("div", {},
      h("strong", {}, (zh && f.title_zh) || f.title),
      h("p", {}, (zh && f.evidence_zh) || f.evidence),
      f.hint ? h("p", { class: "hint" }, (zh && f.hint_zh) || f.hint) : null)))));
}

function noFindings() {
  const r = run(), a = r.analysis;
  if (r.origin !== "measured" || !Object.keys(a.time).length || !a.step_s) return null;
  const busy = a.classes.filter((c) => !c.label.startsWith("idle")).reduce((sum, c) => sum + c.time_s, 0);
  const dark = a.classes.find((c) => c.label === "idle: unknown")?.time_s ?? 0;
  return section("findings", t("What to change first"), null,
    h("p", {}, dark > a.step_s / 2
      ? t("No cause can be named: the device works {share} of the time, and for {dark} of it the recording does not tell what it waited for. Record again, with whole steps marked.", { share: percent(busy / a.step_s), dark: percent(dark / a.step_s) })
      : t("Nothing stands out. The device works {share} of the time.", { share: percent(busy / a.step_s) })));
}

function gainOf(f) {
  if (!f.max_gain_s) return h("div", { class: "gain" });
  return h("div", { class: "gain" }, h("b", {}, percent(f.max_gain_s / run().analysis.step_s)),
    h("span", {}, t("up to {time}", { time: time(f.max_gain_s) })));
}

function pacePanel() {
  if (missing(run().step_time_s) || missing(run().device_busy_s)) return null;
  const r = run(), longest = Math.max(r.step_time_s, r.device_busy_s, r.host_busy_s ?? 0);
  const row = (label, value, kind) => [h("span", {}, label), h("div", { class: "track" },
    h("i", { class: kind, style: { width: `${(value / longest) * 100}%` } })), h("span", {}, time(value))];
  return section("pace", t("Host and device"),
    t("The host is the CPU: it runs Python and launches the device's work, ahead of it where it can. The slower of the two sets the pace."),
    h("div", { class: "pace" }, row(t("device works"), r.device_busy_s, ""),
      r.host_busy_s === null ? [] : row(t("host works"), r.host_busy_s, "host")));
}

/** One breakdown: a stacked bar and its legend. */
function breakdown(id, title, about, rows, label, colour) {
  const total = rows.reduce((sum, row) => sum + row.time_s, 0);
  const step = run().analysis.step_s;
  const bar = h("div", { class: "stack", role: "img", "aria-label": title }, rows.map((row, i) => tipped(
    h("i", { style: { width: `${(row.time_s / total) * 100}%`, background: colour(row.label, i) } }),
    label(row.label), [time(row.time_s), percent(row.time_s / step)])));
  const legend = h("div", { class: "legend" }, rows.map((row, i) => [
    h("span", { class: "swatch", style: { background: colour(row.label, i) } }), h("span", {}, label(row.label)),
    h("span", { class: "value" }, time(row.time_s)), h("span", { class: "share" }, percent(row.time_s / step))]));
  return section(id, title, about, bar, legend);
}

function classesPanel() {
  if (!run().analysis.classes.length || run().analysis.host?.length) return null;
  return breakdown("time", t("Where the time goes"),
    t("Compute-bound: arithmetic sets the time. Bandwidth-bound: device memory does. Instruction-bound: neither, the units are busy issuing instructions. Launch-bound: too short to matter but for starting. Idle: the device waits."),
    run().analysis.classes, classLabel, classColour);
}

function familiesPanel() {
  const a = run().analysis;
  if (!a.kinds.length) return null;
  return breakdown("families", t("By kernel family"), null, a.kinds, word, familyColour);
}

function phasesPanel() {
  const a = run().analysis;
  if (!a.phases.length) return null;
  return breakdown("phases", t("By phase"), null, a.phases, word, (label) => PHASE_COLOURS[label] ?? "#7d8795");
}
