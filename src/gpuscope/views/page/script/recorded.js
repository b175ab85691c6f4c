// What a recording adds: trust, idle spots, ranks, kernels by symbol, critical path, launches, copies, steps.

const shortName = (name) => name.replace(/^(aten|gpuscope)::/, "");
// What the machine itself needs between two pieces of work has no name; "-" says that nobody is at fault.
const NOBODY = new Set(["launch gap", "launch latency", "handing over"]);
const placeName = (name, kind) => (name ? (name === "other places" ? t(name) : shortName(name)) : NOBODY.has(kind) ? "-" : t("not recorded"));
const inLanguage = (one, field) => (state.lang === "zh" && one[`${field}_zh`]) || one[field];
const ofStep = (seconds) => (run().analysis.step_s > 0 ? percent(seconds / run().analysis.step_s) : "");

/** Show a moment in the timeline, of a rank: `start` on its clock, `length` in seconds. */
function showMoment(start, length, rank = run().ranks[0]) {
  if (!timeline) return;
  if (laneRanks(run()).includes(rank)) chooseRank(rank);
  const span = Math.max(length * 1e9, 2000);
  timeline.show(start - span * 0.5, start + span * 1.5);
  document.getElementById("timeline")?.scrollIntoView({ behavior: "smooth", block: "start" });
}

function trustPanel() {
  const trust = run().analysis.trust;
  if (!trust || !trust.remarks.length) return null;
  const closed = Object.entries(trust.can_conclude).filter(([, can]) => !can).map(([question]) => t(question));
  const several = new Set(trust.remarks.map((r) => r.rank).filter((rank) => rank !== null)).size > 1;
  const of = (r) => (several && r.rank !== null ? t("rank {rank}", { rank: r.rank }) + t(": ") : "");
  const list = h("ul", { class: "remarks" }, trust.remarks.map((r) => h("li", { class: r.severity }, of(r) + inLanguage(r, "sentence"))));
  return section("trust", t("How far this recording can be trusted"), null, list,
    closed.length ? h("p", { class: trust.remarks.some((r) => r.severity === "cannot") ? "alarm" : "about" }, t("Cannot be answered: {words}.", { words: closed.join(t(", ")) })) : null);
}

function idlePanel() {
  const spots = run().analysis.idle_spots ?? [];
  if (!spots.length) return null;
  const what = (s) => [placeName(s.what, s.cause), s.within ? ` ${t("in {what}", { what: shortName(s.within) })}` : "", s.where ? ` · ${s.where}` : ""].join("");
  const table = sortable([
    column(t("cause"), (s) => t(s.cause), (s) => t(s.cause), "l"),
    column(t("what the host did"), what, what, "name"),
    column(t("idle"), (s) => s.time_s, (s) => time(s.time_s)),
    column(t("of step"), (s) => s.time_s, (s) => barCell(s.time_s / spots[0].time_s, "var(--idle)", ofStep(s.time_s))),
    column(t("times"), (s) => s.count, (s) => count(s.count)),
    column(t("longest"), (s) => s.longest_s, (s) => time(s.longest_s)),
  ], spots, { sort: 2, limit: 10, press: (s) => showMoment(s.start_ns, s.longest_s) });
  return section("idle", t("Why the device was idle"),
    t("Each moment without device work, by what the host did meanwhile.") + " " + t("Press a row to find it in the timeline."), table);
}

function hostPanel() {
  const list = run().analysis.host ?? [];
  if (!list.length) return null;
  const total = list.reduce((sum, s) => sum + s.time_s, 0);
  return section("host", t("What the host did"),
    t("The device did no work in this recording: what follows is the host's story.") + " " + t("Each without what it calls in turn; all host threads together."),
    sortable([
      column(t("operator"), (s) => s.label, (s) => shortName(s.label), "name"),
      column(t("time"), (s) => s.time_s, (s) => time(s.time_s)),
      column(t("share"), (s) => s.time_s, (s) => barCell(s.time_s / list[0].time_s, "var(--warn)", percent(s.time_s / total))),
      column(t("calls"), (s) => s.count, (s) => count(s.count)),
    ], list));
}

function rankTimesPanel() {
  const times = Object.entries(run().analysis.time).map(([rank, x]) => ({ rank: Number(rank), ...x }));
  if (times.length < 2) return null;
  const most = Math.max(...times.map((x) => x.span_s));
  const table = sortable([
    column(t("rank"), (x) => -x.rank, (x) => String(x.rank)),
    column(t("span"), (x) => x.span_s, (x) => time(x.span_s)),
    column(t("busy"), (x) => x.busy_s, (x) => barCell(x.busy_s / most, "var(--accent)", time(x.busy_s))),
    column(t("computing"), (x) => x.compute_s, (x) => time(x.compute_s)),
    column(t("communication"), (x) => x.communication_s, (x) => barCell(x.communication_s / most, CLASS_COLOURS.communication, time(x.communication_s))),
    column(t("not hidden"), (x) => x.exposed_communication_s, (x) => time(x.exposed_communication_s)),
    column(t("copies"), (x) => x.copy_s, (x) => time(x.copy_s)),
    column(t("idle"), (x) => x.idle_s, (x) => time(x.idle_s)),
  ], times, { sort: 0, limit: 16 });
  return section("rank-times", t("By rank"), t("From the first to the last device event of each rank; unions, so nothing counts twice."), table);
}

function ranksPanel() {
  const story = run().analysis.ranks;
  if (!story) return communicationPanel();
  const most = Math.max(...story.ranks.map((x) => x.caused_s), 0);
  const shares = sortable([
    column(t("rank"), (x) => -x.rank, (x) => String(x.rank)),
    column(t("computing"), (x) => x.compute_s, (x) => time(x.compute_s)),
    column(t("transfer"), (x) => x.transfer_s, (x) => time(x.transfer_s)),
    column(t("waiting"), (x) => x.waiting_s, (x) => time(x.waiting_s)),
    column(t("made others wait"), (x) => x.caused_s, (x) => barCell(most ? x.caused_s / most : 0, "var(--warn)", time(x.caused_s))),
    column(t("came last"), (x) => x.times_last, (x) => count(x.times_last)),
    column(t("host, a step"), (x) => x.host_s ?? null, (x) => (missing(x.host_s) ? "" : time(x.host_s))),
    column(t("clock"), (x) => x.clock_offset_s ?? 0, (x) => (x.clock_offset_s === null ? "" : (x.clock_offset_s < 0 ? "−" : "+") + time(Math.abs(x.clock_offset_s)))),
  ], story.ranks, { sort: 4, limit: 16 });
  return section("ranks", t("Who waits for whom"),
    t("A collective ends when its last rank has come: what the shortest of its kernels takes is transfer, the rest is waiting for that rank."),
    story.sentence ? h("p", { class: "story" }, inLanguage(story, "sentence")) : null, shares, waitsTable(story), sortsTable(story.sorts));
}

function waitsTable(story) {
  if (!story.calls.length) return null;
  const waiting = (c) => c.waits_s.reduce((sum, s) => sum + s, 0);
  const because = (c) => t(c.reason) + (c.instead ? ` · ${shortName(c.instead)} ${time(c.instead_s)}` : "");
  return h("div", {}, h("h3", {}, t("most waiting in")), sortable([
    column(t("collective"), (c) => c.name, (c) => `${c.name} #${c.number}`, "name"),
    column(t("waiting"), waiting, (c) => time(waiting(c))),
    column(t("transfer"), (c) => c.transfer_s, (c) => time(c.transfer_s)),
    column(t("last rank"), (c) => c.last, (c) => String(c.last)),
    column(t("late by"), (c) => c.late_s, (c) => time(c.late_s)),
    column(t("because"), because, because, "l"),
  ], story.calls, { limit: 8, press: (c) => showMoment(c.start_ns, c.late_s + c.transfer_s, c.last) }));
}

function sortsTable(sorts) {
  if (!sorts.length) return null;
  const rate = (s) => (s.bus_bytes_per_s === null ? "" : (s.is_lower_bound ? "≥ " : "") + byteRate(s.bus_bytes_per_s));
  return sortable([
    column(t("collective"), (s) => s.name, (s) => `${s.name}${s.group_size ? ` ×${s.group_size}` : ""} ${s.dtype}`, "name"),
    column(t("count"), (s) => s.count, (s) => count(s.count)),
    column(t("message"), (s) => s.message_bytes, (s) => (s.message_bytes === null ? "" : size(s.message_bytes))),
    column(t("time"), (s) => s.time_s, (s) => time(s.time_s)),
    column(t("transfer, each"), (s) => s.transfer_s, (s) => time(s.transfer_s)),
    column(t("waiting"), (s) => s.waiting_s, (s) => (s.waiting_s === null ? "" : time(s.waiting_s))),
    column(t("bus bandwidth"), (s) => s.bus_bytes_per_s, rate),
  ], sorts, { sort: 3, limit: 10 });
}

function communicationPanel() {
  const found = run().analysis.communication;
  if (!found?.sorts.length) return null;
  return section("ranks", t("Communication"),
    t("One rank alone does not tell transfer from waiting: bandwidths are lower bounds."), sortsTable(found.sorts));
}

function symbolsPanel() {
  const list = run().analysis.symbols ?? [];
  if (!list.length) return null;
  return section("symbols", t("By kernel"), t("The device's own symbols, shortened."), sortable([
    column(t("symbol"), (s) => s.label, (s) => s.label, "name"),
    column(t("time"), (s) => s.time_s, (s) => time(s.time_s)),
    column(t("of step"), (s) => s.time_s, (s) => barCell(s.time_s / list[0].time_s, "var(--accent)", ofStep(s.time_s))),
    column(t("launches"), (s) => s.count, (s) => count(s.count)),
    column(t("each"), (s) => s.time_s / s.count, (s) => (s.count ? time(s.time_s / s.count) : "")),
  ], list, { limit: 12 }));
}

function pathPanel() {
  const path = run().analysis.critical_path;
  if (!path) return null;
  const rows = Object.entries(path.time_s).map(([kind, seconds]) => ({ kind, seconds, gain: path.gain_s[kind] ?? null }));
  const most = Math.max(...rows.map((r) => r.seconds), 0);
  const kinds = sortable([
    column(t("part"), (r) => t(r.kind), (r) => t(r.kind), "l"),
    column(t("time"), (r) => r.seconds, (r) => time(r.seconds)),
    column(t("of step"), (r) => r.seconds, (r) => barCell(most ? r.seconds / most : 0, "var(--accent)", ofStep(r.seconds))),
    column(t("could save at most"), (r) => r.gain, (r) => (r.gain === null ? "" : time(r.gain))),
  ], rows);
  const names = sortable([
    column(t("longest on the path"), (s) => s.name, (s) => placeName(s.name, s.kind), "name"),
    column(t("part"), (s) => t(s.kind), (s) => t(s.kind), "l"),
    column(t("time"), (s) => s.time_s, (s) => time(s.time_s)),
    column(t("of step"), (s) => s.time_s, (s) => ofStep(s.time_s)),
    column(t("times"), (s) => s.count, (s) => count(s.count)),
  ], path.shares, { sort: 2, limit: 10, press: (s) => showMoment(s.start_ns, s.longest_s) });
  return section("path", t("Critical path"),
    t("The chain of work and waits that sets the step's length: shortening anything else gains nothing."), kinds, names);
}

function launchesPanel() {
  const l = run().analysis.launches;
  if (!l || !l.count) return null; // work of the host itself (a run on the CPU) was launched by nobody
  const fact = (label, value, note) => h("div", {}, h("dt", {}, label), h("dd", {}, value, note ? h("span", { class: "dim" }, ` ${note}`) : null));
  const facts = h("dl", { class: "facts" },
    fact(t("Launches a step"), count(l.count), t("{rate} a second", { rate: count(l.rate_per_s) })),
    fact(t("A launch call"), time(l.call_median_s), t("{time} a step in all", { time: time(l.call_total_s) })),
    l.latency_median_s === null ? null : fact(t("From call to work"), time(l.latency_median_s),
      l.latency_empty_median_s === null ? null : t("{time} where nothing was queued", { time: time(l.latency_empty_median_s) })),
    l.queue_mean === null ? null : fact(t("Queue"), t("{mean} on average, {most} at most", { mean: digits(l.queue_mean), most: count(l.queue_max) }),
      l.empty_share === null ? null : t("{share} of the launches found it empty", { share: percent(l.empty_share) })),
    l.graph_launches ? fact("CUDA graphs", t("{n} of CUDA graphs with {each} kernels each", { n: count(l.graph_launches), each: count(l.kernels_per_graph) })) : null,
    l.unlinked ? fact(t("Not linked"), t("{n} device events without a known launch", { n: count(l.unlinked) })) : null,
    l.short_share === null ? null : fact(t("Short kernels"), t("{share} of the kernels are shorter than their own launch call", { share: percent(l.short_share) })));
  return section("launches", t("Launches and their queue"),
    t("A host that stays ahead keeps a queue of launched work; an empty queue means that the device waits for the host."), facts, queueCurve(l));
}

function queueCurve(l) {
  const depth = l.queue_depth;
  if (depth.length < 2 || !Math.max(...depth)) return null;
  const width = 1000, height = 90, most = Math.max(...depth);
  const points = depth.flatMap((v, i) => [[i, v], [i + 1, v]]).map(([i, v]) => `${(i / depth.length) * width},${height - (v / most) * (height - 6)}`);
  return h("div", { class: "queue" }, svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": t("launched and not yet begun, over the window") },
    svg("path", { d: `M0,${height} L${points.join(" L")} L${width},${height} Z`, fill: "#1aa3c4", "fill-opacity": ".3" })),
  h("p", { class: "dim" }, t("launched and not yet begun, over the window") + t(", ") + t("at most {most}", { most: count(most) })));
}

function copiesPanel() {
  const list = run().analysis.copies ?? [];
  if (!list.length) return null;
  const name = (c) => t(c.direction) + (c.memory ? ` (${t(c.memory)})` : "");
  const link = (c) => (c.rate_bytes_per_s && c.link_bytes_per_s ? c.rate_bytes_per_s / c.link_bytes_per_s : null);
  return section("copies", t("Memory copies"), t("Per step. Not hidden: with no kernel beside it."), sortable([
    column(t("copies"), name, (c) => h("span", { class: c.memory === "pageable" ? "some" : "" }, name(c)), "l"),
    column(t("time"), (c) => c.time_s, (c) => time(c.time_s)),
    column(t("not hidden"), (c) => c.exposed_s, (c) => time(c.exposed_s)),
    column(t("count"), (c) => c.count, (c) => count(c.count)),
    column(t("bytes"), (c) => c.total_bytes, (c) => (c.total_bytes === null ? "" : size(c.total_bytes))),
    column(t("median size"), (c) => c.median_bytes, (c) => (c.median_bytes === null ? "" : size(c.median_bytes))),
    column(t("rate"), (c) => c.rate_bytes_per_s, (c) => (c.rate_bytes_per_s ? byteRate(c.rate_bytes_per_s) : "")),
    column(t("of the link"), link, (c) => (link(c) === null ? "" : barCell(link(c), "var(--accent)", percent(link(c))))),
  ], list));
}

function stepsPanel() {
  const found = run().analysis.step_spread?.ranks[0];
  if (!found) return null;
  const most = Math.max(...found.times_s), median = found.median_s;
  const bars = h("div", { class: "steps" }, found.times_s.slice(0, 200).map((s, i) => tipped(
    h("i", { style: { height: `${(s / most) * 100}%`, background: s > median * 1.2 ? "var(--warn)" : "var(--accent)" } }), t("step {n}", { n: i }), [time(s)])));
  const causes = (s) => (s.causes.length ? s.causes : s.parts).slice(0, 3).map(([name, extra]) => `${t(shortName(name))} +${time(extra)}`).join(t(", "));
  const slow = found.slow.length ? sortable([
    column(t("slow step"), (s) => s.number, (s) => String(s.number)),
    column(t("time"), (s) => s.time_s, (s) => time(s.time_s)),
    column(t("extra"), (s) => s.extra_s, (s) => time(s.extra_s)),
    column(t("what was longer"), causes, causes, "l"),
  ], found.slow, { press: (s) => showMoment(s.start_ns, s.time_s) }) : null;
  return section("steps", t("How steps differ"), t("{n} steps: median {median}, {fastest} to {slowest}; the middle 80 % spread over {spread} of the median.",
    { n: found.times_s.length, median: time(median), fastest: time(found.fastest_s), slowest: time(found.slowest_s), spread: percent(found.spread) }), bars, slow);
}
