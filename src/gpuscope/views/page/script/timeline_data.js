// The timeline's events, sorted into rows in which none overlap, so that any range is found at once.

/** The ranks that a run's lanes are of, ascending. */
const laneRanks = (r) => [...new Set((r.timeline?.lanes ?? []).map((lane) => lane.rank))].sort((a, b) => a - b);

/** Prepare a run's timeline, of one rank where it has several; null where it has none. */
function timelineData(r, rank = null) {
  const tl = r.timeline;
  if (!tl || !tl.events.start_ns.length) return null;
  const e = tl.events, n = e.start_ns.length;
  const start = Float64Array.from(e.start_ns), end = new Float64Array(n);
  for (let i = 0; i < n; i++) end[i] = start[i] + e.duration_ns[i];
  const step = tl.kinds.indexOf("step");
  const lanes = tl.lanes.map((lane, index) => ({ ...lane, index, rows: [] }));
  const order = Uint32Array.from({ length: n }, (_, i) => i)
    .sort((a, b) => start[a] - start[b] || end[b] - end[a]);
  const launch = tl.kinds.indexOf("launch");
  let low = Infinity, high = -Infinity, work = Infinity;
  for (const i of order) {
    if (e.kind[i] === step || (rank !== null && lanes[e.lane[i]].rank !== rank)) continue;
    low = Math.min(low, start[i]);
    if (e.kind[i] < 4 || e.kind[i] === launch) work = Math.min(work, start[i]);
    high = Math.max(high, end[i]);
    place(lanes[e.lane[i]].rows, i, start, end);
  }
  for (const s of tl.steps) if (rank === null || s.rank === rank) { low = Math.min(low, s.start_ns); high = Math.max(high, s.end_ns); }
  high = Math.max(high, low + 1);
  // A host that waits for the step before would fill half of the picture: begin at the first launch.
  const begin = Number.isFinite(work) ? Math.max(low, work - (high - work) * 0.02) : low;
  return { tl, e, start, end, low, begin, high, lanes: lanes.filter((lane) => lane.rows.length), links: linkEvents(e) };
}

/** Put an event into the first row that is free when it begins. */
function place(rows, i, start, end) {
  for (const row of rows) {
    if (end[row.at(-1)] <= start[i]) { row.push(i); return; }
  }
  rows.push([i]);
}

/** Launches and the work that they start: correlation to event indexes. */
function linkEvents(e) {
  const links = new Map();
  e.correlation.forEach((c, i) => {
    if (c >= 0) (links.get(c) ?? links.set(c, []).get(c)).push(i);
  });
  return links;
}

/** Index of the first event of a row that ends after `time`. */
function firstAfter(row, end, time) {
  let low = 0, high = row.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (end[row[middle]] > time) high = middle; else low = middle + 1;
  }
  return low;
}

/** What is known of an event, as title and pairs of label and value. */
function describeEvent(d, i) {
  const { tl, e } = d;
  const kernel = e.kernel[i] >= 0 ? tl.kernels[e.kernel[i]] : null;
  const facts = [[t("duration"), time(e.duration_ns[i] * 1e-9)], [t("starts at"), time((e.start_ns[i] - d.low) * 1e-9)]];
  const columns = tl.ops.columns, op = e.op[i];
  if (op >= 0 && columns.name?.[op] !== undefined) {
    facts.push([t("operator"), operatorLabel(tl.ops.names[columns.name[op]])]);
    const module = tl.ops.modules[columns.module[op]];
    if (module) facts.push([t("module"), module]);
    facts.push([t("phase"), t(columns.phase[op])]);
    const shapes = tl.ops.signatures[columns.signature[op]].inputs.map((s) => `${s.dtype} ${s.shape.join("×") || "1"}`);
    if (shapes.length) facts.push([t("inputs"), shapes.slice(0, 4).join(t(", ")) + (shapes.length > 4 ? " …" : "")]);
  }
  if (kernel) facts.push(...kernelFacts(kernel));
  return { title: tl.names[e.name[i]], facts };
}

function kernelFacts(k) {
  const moved = k.read_bytes + k.written_bytes;
  return [
    [t("family"), word(k.kind)],
    [t("limited by"), word(k.limiter)],
    k.flops > 0 ? [t("arithmetic"), `${flops(k.flops)}, ${flopRate(k.flops / k.duration_s)}`] : null,
    moved > 0 ? [t("traffic"), `${size(moved)}, ${byteRate(moved / k.duration_s)}`] : null,
    k.lane === "compute" ? [t("blocks"), `${count(k.grid)} × ${k.block} ${t("threads")}`] : null,
    k.tile.length ? [t("tile"), k.tile.join("×")] : null,
    k.waves > 0 ? [t("waves"), digits(k.waves)] : null,
    k.occupancy !== null ? [t("warps"), percent(k.occupancy)] : null,
    k.note ? [t("note"), k.note] : null,
  ].filter(Boolean);
}
