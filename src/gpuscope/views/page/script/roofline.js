// The roofline: each group of equal kernels as a bubble under the device's roofs.

const MOST_BUBBLES = 400;
const LEAST_SHARE = 1e-3; // of the step: shorter kernels would only stretch the axes

function rooflinePanel() {
  const roof = run().analysis.roofline;
  if (!roof || !roof.points.length || !roof.memory_bandwidth_bytes_per_s) return null;
  const box = h("div");
  onResize(box, () => box.replaceChildren(drawRoofline(roof, Math.max(320, box.clientWidth))));
  const peak = run().analysis.utilisation?.peak_flops_per_s ?? Math.max(...Object.values(roof.peak_flops_per_s));
  const about = t("A bubble is a kernel, its area its time. The line is what the device can do: under the slope memory limits ({bandwidth}), under the flat part arithmetic does ({peak}). The nearer to the line, the better.",
    { bandwidth: byteRate(roof.memory_bandwidth_bytes_per_s), peak: flopRate(peak) });
  return section("roofline", t("Roofline"), about, box, familyLegend(shownPoints(roof)));
}

/** The points worth a bubble, longest first; all of them where none is long. */
function shownPoints(roof) {
  const sound = roof.points.filter((p) => p.flops_per_s > 0 && p.intensity_flops_per_byte > 0);
  const long = sound.filter((p) => p.time_s >= LEAST_SHARE * run().analysis.step_s);
  return (long.length ? long : sound).slice(0, MOST_BUBBLES);
}

function familyLegend(points) {
  return h("div", { class: "families" }, [...new Set(points.map((p) => p.kind))].map((kind) =>
    h("span", {}, h("i", { style: { background: familyColour(kind) } }), word(kind))));
}

/** Logarithmic scales that hold every point and the ridge. */
function rooflineScales(roof, points, peak, width, height) {
  const bandwidth = roof.memory_bandwidth_bytes_per_s, ridge = peak / bandwidth;
  const xs = [...points.map((p) => p.intensity_flops_per_byte), ridge * 20, ridge / 30];
  const ys = [...points.map((p) => p.flops_per_s), peak * 1.6];
  const [x0, x1] = [Math.log10(Math.min(...xs) * 0.6), Math.log10(Math.max(...xs) * 1.6)];
  const y1 = Math.log10(Math.max(...ys));
  const y0 = Math.max(Math.log10(Math.min(...ys) * 0.5), y1 - 7);
  const left = 62, bottom = height - 40, right = width - 12, top = 14;
  return {
    x: (v) => left + ((Math.log10(v) - x0) / (x1 - x0)) * (right - left),
    y: (v) => bottom - ((Math.max(Math.log10(v), y0) - y0) / (y1 - y0)) * (bottom - top),
    x0, x1, y0, y1, left, right, top, bottom,
  };
}

function drawRoofline(roof, width) {
  const height = Math.min(440, Math.max(300, width * 0.5));
  const points = shownPoints(roof);
  const main = run().analysis.utilisation?.peak_flops_per_s ?? Math.max(...Object.values(roof.peak_flops_per_s));
  const s = rooflineScales(roof, points, main, width, height);
  const picture = svg("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": t("Roofline") });
  const { lines, labels } = rooflineRoofs(roof, s, main);
  picture.append(...rooflineGrid(s), ...lines);
  const longest = Math.max(...points.map((p) => p.time_s)), step = run().analysis.step_s;
  for (const p of points) {
    const bubble = svg("circle", {
      class: "bubble", tabindex: "0", role: "img", "aria-label": `${p.label}, ${time(p.time_s)}`,
      cx: s.x(p.intensity_flops_per_byte), cy: s.y(p.flops_per_s), r: 3 + 19 * Math.sqrt(p.time_s / longest),
      fill: familyColour(p.kind), stroke: familyColour(p.kind),
    });
    picture.append(tipped(bubble, p.label, [
      `${time(p.time_s)} (${percent(p.time_s / step)})  ×${count(p.count)}`,
      `${flopRate(p.flops_per_s)}${t(", ")}${t("{share} of its roof", { share: percent(p.flops_per_s / p.roof_flops_per_s) })}`,
      `${digits(p.intensity_flops_per_byte)} ${t("FLOP per byte")}`, `${t("limited by")}${t(": ")}${word(p.limiter)}`,
    ]));
  }
  picture.append(...labels);
  return picture;
}

function rooflineGrid(s) {
  const lines = [];
  for (let e = Math.ceil(s.x0); e <= s.x1; e++) {
    lines.push(svg("line", { class: "grid", x1: s.x(10 ** e), x2: s.x(10 ** e), y1: s.top, y2: s.bottom }),
      svg("text", { x: s.x(10 ** e), y: s.bottom + 17, "text-anchor": "middle" }, digits(10 ** e).replace(/\.?0+$/, (z) => (z.includes(".") ? "" : z))));
  }
  for (let e = Math.ceil(s.y0); e <= s.y1; e++) {
    lines.push(svg("line", { class: "grid", x1: s.left, x2: s.right, y1: s.y(10 ** e), y2: s.y(10 ** e) }),
      svg("text", { x: s.left - 7, y: s.y(10 ** e) + 4, "text-anchor": "end" }, shortRate(10 ** e)));
  }
  lines.push(svg("text", { x: (s.left + s.right) / 2, y: s.bottom + 35, "text-anchor": "middle" }, t("FLOP per byte")),
    svg("text", { x: s.left, y: s.top - 3 }, "FLOP/s"));
  return lines;
}

const shortRate = (value) => { const [scale, p] = DECIMAL.find(([v]) => value >= v) ?? [1, ""]; return `${Math.round(value / scale)} ${p}`.trim(); };

function rooflineRoofs(roof, s, main) {
  const bandwidth = roof.memory_bandwidth_bytes_per_s, low = 10 ** s.x0, high = 10 ** s.x1;
  const path = (peak) => {
    const ridge = Math.min(high, peak / bandwidth), start = Math.max(low, 10 ** s.y0 / bandwidth);
    return `M${s.x(start)},${s.y(start * bandwidth)} L${s.x(ridge)},${s.y(ridge * bandwidth)} L${s.x(high)},${s.y(Math.min(peak, high * bandwidth))}`;
  };
  const lines = [], labels = [];
  const byPeak = new Map();
  for (const [dtype, peak] of Object.entries(roof.peak_flops_per_s)) byPeak.set(peak, [...(byPeak.get(peak) ?? []), dtype]);
  const seen = [];
  for (const [peak, dtypes] of [...byPeak].sort((a, b) => b[0] - a[0])) {
    if (Math.log10(peak) > s.y1 || Math.log10(peak) < s.y0) continue;
    const y = s.y(peak), isMain = Math.abs(peak / main - 1) < 1e-6;
    lines.push(svg("path", { class: isMain ? "roof" : "roof faint", d: path(peak) }));
    if (!isMain && seen.some((other) => Math.abs(other - y) < 14)) continue;
    if (!isMain && s.right - s.left < 420) continue;
    seen.push(y);
    labels.push(svg("text", { class: isMain ? "strong halo" : "halo", x: s.right, y: y - 5, "text-anchor": "end" }, `${dtypes.join(t(", "))}  ${flopRate(peak)}`));
  }
  return { lines, labels };
}
