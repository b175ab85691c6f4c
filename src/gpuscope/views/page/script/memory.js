// Memory: the curve over the step, and what it holds at the peak.

function memoryPanel() {
  const m = run().analysis.memory;
  if (!m) return null;
  const plot = h("div"), curve = heldToTheEnd(m, run().analysis.step_s);
  if (m.time_s.length) onResize(plot, () => plot.replaceChildren(drawMemory(curve, Math.max(300, plot.clientWidth))));
  return section("memory", t("Memory"),
    !run().analysis.step_s
      ? t("Peak {peak}, {time} into the recording. Reserved is what the allocator keeps from the device for re-use.", { peak: size(m.peak_bytes), time: time(m.peak_time_s) })
      : t("Peak {peak}, {time} into the step. Reserved is what the allocator keeps from the device for re-use. Memory is taken when the host issues an operator, ahead of the device.", { peak: size(m.peak_bytes), time: time(m.peak_time_s) }),
    h("div", { class: "split" }, h("div", {}, plot), h("div", {}, memoryCategories(m))), memoryHolders(m));
}

/** The curve with its last value held until the step's end: points stand only where it changes. */
function heldToTheEnd(m, step) {
  if (!m.time_s.length || m.time_s.at(-1) >= step) return m;
  const held = (values) => (values.length ? [...values, values.at(-1)] : values);
  return { ...m, time_s: [...m.time_s, step], allocated_bytes: held(m.allocated_bytes), reserved_curve_bytes: held(m.reserved_curve_bytes) };
}

/** The highest value in each pixel's slice of time. */
function envelope(times, values, columns) {
  const begin = times[0], end = times.at(-1), top = new Array(columns).fill(null);
  let held = values[0];
  const last = new Array(columns).fill(null);
  times.forEach((at, i) => {
    const k = Math.min(columns - 1, Math.floor(((at - begin) / (end - begin || 1)) * columns));
    top[k] = Math.max(top[k] ?? 0, values[i]);
    last[k] = values[i];
  });
  return top.map((v, k) => { const shown = Math.max(v ?? 0, held); held = last[k] ?? held; return shown; });
}

function drawMemory(m, width) {
  const height = 260, left = 66, right = width - 8, top = 16, bottom = height - 26;
  const begin = m.time_s[0], end = m.time_s.at(-1);
  const reserved = m.reserved_curve_bytes.length === m.time_s.length;
  const most = Math.max(m.peak_bytes, reserved ? Math.max(...m.reserved_curve_bytes) : 0);
  const near = m.capacity_bytes && m.capacity_bytes < most * 1.6;
  const high = (near ? Math.max(most, m.capacity_bytes) : most) * 1.08;
  const x = (k, n) => left + (k / n) * (right - left), y = (v) => bottom - (v / high) * (bottom - top);
  const columns = Math.floor(right - left);
  const curve = (values) => envelope(m.time_s, values, columns).map((v, k) => `${x(k, columns).toFixed(1)},${y(v).toFixed(1)}`).join(" L");
  const picture = svg("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": t("Memory over the step") });
  const unit = 2 ** (10 * Math.floor(Math.log2(high) / 10));
  for (const v of ticks(0, high / unit, 5)) {
    picture.append(svg("line", { class: "grid", x1: left, x2: right, y1: y(v * unit), y2: y(v * unit) }),
      svg("text", { x: left - 7, y: y(v * unit) + 4, "text-anchor": "end" }, v ? size(v * unit).replace(/\.0+ | (?=\D)/, " ").replace(/(\.\d*?)0+ /, "$1 ") : "0"));
  }
  const area = curve(m.allocated_bytes);
  picture.append(svg("path", { d: `M${left},${bottom} L${area} L${right},${bottom} Z`, fill: "#0f9b8e", "fill-opacity": ".25" }),
    svg("path", { d: `M${area}`, fill: "none", stroke: "#0f9b8e", "stroke-width": "1.6" }));
  if (reserved) picture.append(svg("path", { d: `M${curve(m.reserved_curve_bytes)}`, fill: "none", stroke: "#8d97a5", "stroke-width": "1.3", "stroke-dasharray": "5 3" }));
  if (near) picture.append(svg("line", { x1: left, x2: right, y1: y(m.capacity_bytes), y2: y(m.capacity_bytes), stroke: "var(--bad)", "stroke-width": "1.5" }),
    svg("text", { x: left + 6, y: y(m.capacity_bytes) - 5, style: { fill: "var(--bad)" } }, `${t("capacity")} ${size(m.capacity_bytes)}`));
  const px = left + ((m.peak_time_s - begin) / (end - begin || 1)) * (right - left);
  const side = px > (left + right) / 2 ? "end" : "start";
  picture.append(svg("circle", { cx: px, cy: y(m.peak_bytes), r: 4, fill: "#0f9b8e" }),
    svg("text", { class: "strong halo", x: px + (side === "end" ? -8 : 8), y: y(m.peak_bytes) - 7, "text-anchor": side }, size(m.peak_bytes)),
    svg("text", { x: left, y: bottom + 18 }, "0"), svg("text", { x: right, y: bottom + 18, "text-anchor": "end" }, time(end - begin)));
  return h("div", {}, picture, h("div", { class: "families" },
    h("span", {}, h("i", { style: { background: "#0f9b8e" } }), t("allocated")),
    reserved ? h("span", {}, h("i", { style: { background: "#8d97a5" } }), t("reserved")) : null,
    m.capacity_bytes && !near ? h("span", {}, t("capacity {size}, far above", { size: size(m.capacity_bytes) })) : null));
}

function memoryCategories(m) {
  const rows = Object.entries(m.at_peak).sort((a, b) => b[1] - a[1]);
  if (!rows.length) return h("p", { class: "dim" }, t("What held the memory is not known."));
  const colour = (name) => CATEGORY_COLOURS[name] ?? "#7d8795";
  return h("div", {}, h("h3", { style: { marginTop: 0 } }, t("At the peak")),
    h("div", { class: "stack", role: "img", "aria-label": t("At the peak") }, rows.map(([name, bytes]) => tipped(
      h("i", { style: { width: `${(bytes / m.peak_bytes) * 100}%`, background: colour(name) } }), word(name), [size(bytes)]))),
    h("div", { class: "legend" }, rows.map(([name, bytes]) => [
      h("span", { class: "swatch", style: { background: colour(name) } }), h("span", {}, word(name)),
      h("span", { class: "value" }, size(bytes)), h("span", { class: "share" }, percent(bytes / m.peak_bytes))])));
}

function memoryHolders(m) {
  if (!m.holders.length) return null;
  const rows = m.holders.map(([label, bytes]) => ({ label, bytes }));
  return [h("h3", {}, t("Largest at the peak")), sortable([
    column(t("what"), (x) => x.label, (x) => x.label, "name"),
    column(t("memory"), (x) => x.bytes, (x) => size(x.bytes)),
    column(t("of peak"), (x) => x.bytes, (x) => barCell(x.bytes / rows[0].bytes, "#0f9b8e", percent(x.bytes / m.peak_bytes))),
  ], rows, { limit: 6 })];
}
