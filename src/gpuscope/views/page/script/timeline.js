// The timeline: host and device lanes on one canvas, with the memory curve under them.

const HOST_ROW = 17, DEVICE_ROW = 24, AXIS = 24, GAP = 10, CURVE = 54;
let timeline = null;

class Timeline {
  constructor(d) {
    this.d = d;
    this.view = [d.begin, d.high];
    this.selected = -1;
    this.operator = null;
    this.pointers = new Map();
    this.canvas = h("canvas", { tabindex: "0", role: "application", "aria-label": t("Timeline: arrow keys move, plus and minus zoom, brackets step through the events") });
    this.canvas.timeline = this; // reachable from the browser's console and from tests
    this.detail = h("div", { class: "detail", "aria-live": "polite" });
    this.layout();
    this.listen();
    this.showDetail();
  }

  layout() {
    let y = AXIS;
    this.rows = [];
    this.labels = [];
    for (const lane of this.d.lanes) {
      const height = lane.kind === "host" ? HOST_ROW : DEVICE_ROW;
      this.labels.push({ y, name: laneName(lane), height: Math.min(2, lane.rows.length) * height });
      for (const row of lane.rows) { this.rows.push({ y, row, lane, height }); y += height; }
      y += GAP;
    }
    this.curve = this.d.tl.counters.find((c) => c.name === "allocated" && c.value.length > 1) ?? null;
    if (this.curve) { this.curveY = y; this.curveTop = Math.max(...this.curve.value); y += CURVE + GAP; }
    this.height = y;
  }

  /** Left edge of the drawing: room for the lanes' names. */
  get left() { return this.width < 560 ? 74 : 118; }
  x(time) { return this.left + ((time - this.view[0]) / (this.view[1] - this.view[0])) * (this.width - this.left); }
  time(x) { return this.view[0] + ((x - this.left) / (this.width - this.left)) * (this.view[1] - this.view[0]); }

  request() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => { this.pending = 0; this.draw(); });
  }

  draw() {
    const box = this.canvas.parentElement;
    if (!box) return;
    const scale = devicePixelRatio || 1;
    this.width = box.clientWidth;
    this.canvas.style.height = `${this.height}px`;
    if (this.canvas.width !== Math.round(this.width * scale) || this.canvas.height !== Math.round(this.height * scale)) {
      this.canvas.width = Math.round(this.width * scale);
      this.canvas.height = Math.round(this.height * scale);
    }
    const c = this.canvas.getContext("2d");
    c.setTransform(scale, 0, 0, scale, 0, 0);
    c.clearRect(0, 0, this.width, this.height);
    c.font = `11.5px ${getComputedStyle(document.body).fontFamily}`;
    c.textBaseline = "middle";
    this.drawAxis(c);
    c.save();
    c.beginPath();
    c.rect(this.left, 0, this.width - this.left, this.height);
    c.clip();
    for (const row of this.rows) this.drawRow(c, row);
    if (this.curve) this.drawCurve(c);
    this.drawLinks(c);
    if (this.range) this.drawRange(c);
    c.restore();
    this.drawLabels(c);
  }

  drawAxis(c) {
    const [from, to] = this.view;
    c.strokeStyle = css("--line");
    c.fillStyle = css("--soft");
    c.lineWidth = 1;
    c.textAlign = "left";
    for (const at of ticks(from - this.d.low, to - this.d.low, Math.max(2, (this.width - this.left) / 110))) {
      const x = Math.round(this.x(at + this.d.low)) + 0.5;
      if (x < this.left) continue;
      c.beginPath(); c.moveTo(x, AXIS - 6); c.lineTo(x, this.height); c.stroke();
      if (x < this.width - 46) c.fillText(axisTime(at, to - from), x + 3, 9);
    }
    c.strokeStyle = css("--accent");
    c.setLineDash([4, 3]);
    for (const step of this.d.tl.steps) for (const at of [step.start_ns, step.end_ns]) {
      const x = Math.round(this.x(at)) + 0.5;
      if (x < this.left) continue;
      c.beginPath(); c.moveTo(x, AXIS - 6); c.lineTo(x, this.height); c.stroke();
    }
    c.setLineDash([]);
  }

  /** One row; with an operator selected, its events are drawn last, so that they show. */
  drawRow(c, place) {
    if (this.operator === null) return this.drawEvents(c, place, () => true);
    c.globalAlpha = 0.28;
    this.drawEvents(c, place, (i) => !this.isChosen(i));
    c.globalAlpha = 1;
    this.drawEvents(c, place, (i) => this.isChosen(i));
  }

  drawEvents(c, { y, row, height }, wanted) {
    const { start, end, e } = this.d, [from, to] = this.view;
    let painted = -1;
    for (let k = firstAfter(row, end, from); k < row.length; k++) {
      const i = row[k];
      if (start[i] > to) break;
      const x0 = Math.max(this.left, this.x(start[i])), x1 = this.x(end[i]);
      if (x1 < painted + 0.5 || !wanted(i)) continue;
      const width = Math.max(1, x1 - x0 - (x1 - x0 > 3 ? 0.6 : 0));
      c.fillStyle = eventColour(this.d, i);
      c.fillRect(x0, y, width, height - 2);
      if (i === this.selected) { c.strokeStyle = css("--ink"); c.lineWidth = 2; c.strokeRect(x0, y, width, height - 2); }
      if (width > 34) this.label(c, this.d.tl.names[e.name[i]], x0, y + height / 2, width);
      painted = x0 + width;
    }
  }

  label(c, name, x, y, width) {
    c.fillStyle = "#fff";
    c.textAlign = "left";
    const room = Math.floor((width - 8) / 6.2);
    const text = operatorLabel(name);
    c.fillText(text.length > room ? `${text.slice(0, room - 1)}…` : text, x + 4, y - 0.5);
  }

  drawCurve(c) {
    const { time_ns: times, value } = this.curve, base = this.curveY + CURVE, left = this.left;
    const y = (v) => base - (v / this.curveTop) * CURVE;
    c.beginPath();
    c.moveTo(left, base);
    let at = left, last = value[0];
    for (let k = 0; k < times.length; k++) {
      const x = Math.max(left, Math.min(this.width, this.x(times[k])));
      if (x > at) { c.lineTo(at, y(last)); c.lineTo(x, y(last)); at = x; }
      last = value[k];
    }
    c.lineTo(at, y(last)); c.lineTo(this.width, y(last)); c.lineTo(this.width, base); c.closePath();
    c.fillStyle = "#0f9b8e";
    c.globalAlpha = 0.28; c.fill();
    c.globalAlpha = 1; c.strokeStyle = "#0f9b8e"; c.lineWidth = 1.2; c.stroke();
  }

  /** A line from a launch to the work that it started, for the selected event. */
  drawLinks(c) {
    if (this.selected < 0) return;
    const own = this.d.e.correlation[this.selected];
    const pair = own >= 0 ? this.d.links.get(own) : null;
    if (!pair || pair.length < 2) return;
    const middle = (i) => [Math.max(this.left, this.x(this.d.start[i])), this.rowOf(i)];
    const from = middle(pair[0]);
    c.strokeStyle = css("--ink"); c.lineWidth = 1.3;
    for (const other of pair.slice(1)) {
      const to = middle(other);
      c.beginPath(); c.moveTo(...from);
      c.bezierCurveTo(from[0], (from[1] + to[1]) / 2, to[0], (from[1] + to[1]) / 2, ...to);
      c.stroke();
    }
  }

  drawRange(c) {
    c.fillStyle = css("--accent");
    c.globalAlpha = 0.15;
    c.fillRect(Math.min(...this.range), 0, Math.abs(this.range[1] - this.range[0]), this.height);
    c.globalAlpha = 1;
  }

  drawLabels(c) {
    c.fillStyle = css("--paper");
    c.fillRect(0, 0, this.left - 1, this.height);
    c.fillStyle = css("--soft");
    c.textAlign = "right";
    for (const { y, name, height } of this.labels) fitText(c, name, this.left - 10, y + height / 2, this.left - 14);
    if (this.curve) {
      fitText(c, t("memory"), this.left - 10, this.curveY + 16, this.left - 14);
      fitText(c, size(this.curveTop), this.left - 10, this.curveY + 32, this.left - 14);
    }
  }

  /** The middle of the row that an event is drawn in. */
  rowOf(i) {
    const found = this.rows.find(({ row, lane }) => lane.index === this.d.e.lane[i] && row.includes(i));
    return found ? found.y + found.height / 2 : 0;
  }

  isChosen(i) { return this.operator !== null && this.d.e.op[i] >= 0 && this.nameOf(i) === this.operator; }
  nameOf(i) { const { ops } = this.d.tl; return ops.names[ops.columns.name[this.d.e.op[i]]] ?? null; }
  operatorName() { return this.operator; }

  /** The event under a point, with two pixels' grace. */
  hit(x, y) {
    const found = this.rows.find((r) => y >= r.y && y < r.y + r.height);
    if (!found || x < this.left) return -1;
    const grace = this.time(x + 2) - this.time(x);
    const k = firstAfter(found.row, this.d.end, this.time(x) - grace);
    return k < found.row.length && this.d.start[found.row[k]] <= this.time(x) + grace ? found.row[k] : -1;
  }

  zoom(factor, x = (this.left + this.width) / 2) {
    const at = this.time(x), span = Math.max(20, (this.view[1] - this.view[0]) * factor);
    const before = (at - this.view[0]) / (this.view[1] - this.view[0]);
    this.show(at - span * before, at + span * (1 - before));
  }

  show(from, to) {
    const whole = this.d.high - this.d.low, pad = whole * 0.02;
    const span = Math.min(to - from, whole + 2 * pad);
    const begin = Math.min(Math.max(from, this.d.low - pad), this.d.high + pad - span);
    this.view = [begin, begin + span];
    this.request();
  }

  pan(share) { const by = (this.view[1] - this.view[0]) * share; this.show(this.view[0] + by, this.view[1] + by); }
  fit() { this.show(this.d.low, this.d.high); }

  select(i, centre = false) {
    this.selected = i;
    this.operator = i >= 0 && this.d.e.op[i] >= 0 ? this.nameOf(i) : null;
    if (centre && i >= 0) {
      const span = Math.max(this.d.e.duration_ns[i] * 12, 2e4), middle = (this.d.start[i] + this.d.end[i]) / 2;
      if (this.d.start[i] < this.view[0] || this.d.end[i] > this.view[1] || this.x(this.d.end[i]) - this.x(this.d.start[i]) < 3) this.show(middle - span / 2, middle + span / 2);
    }
    this.showDetail();
    for (const redraw of redraws) redraw();
  }

  /** Select the longest device event of an operator. */
  selectOperator(label) {
    if (this.operator === label) return this.select(-1);
    const { e } = this.d;
    let best = -1;
    for (let i = 0; i < e.op.length; i++) {
      const same = e.op[i] >= 0 ? this.nameOf(i) === label : this.d.tl.names[e.name[i]] === label;
      if (same && e.kind[i] < 4 && (best < 0 || e.duration_ns[i] > e.duration_ns[best])) best = i;
    }
    if (best < 0) return;
    this.select(best);
    this.operator = label;
    this.request();
    document.getElementById("timeline").scrollIntoView({ block: "nearest" });
  }

  /** Move the selection to the next or previous event of the same row. */
  step(by) {
    if (this.selected < 0) {
      const first = this.rows.find((r) => r.lane.kind !== "host") ?? this.rows[0];
      return this.select(first.row[Math.min(firstAfter(first.row, this.d.end, this.view[0]), first.row.length - 1)], true);
    }
    const row = this.rows.find(({ row: r, lane }) => lane.index === this.d.e.lane[this.selected] && r.includes(this.selected)).row;
    const next = row[row.indexOf(this.selected) + by];
    if (next !== undefined) this.select(next, true);
  }

  showDetail() {
    if (this.selected < 0) {
      this.detail.replaceChildren(h("span", { class: "dim" }, t("Nothing selected. Click an event to see what it is, who launched it and what limits it.")));
      return;
    }
    const { title, facts } = describeEvent(this.d, this.selected);
    this.detail.replaceChildren(h("h3", {}, title),
      h("dl", {}, facts.map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, value)))));
  }
}

const laneName = (lane) => {
  const [first, ...rest] = lane.name.split(" ");
  return [t(first), ...rest].join(" ") + (run().ranks.length > 1 ? ` · ${lane.rank}` : "");
};

function eventColour(d, i) {
  const kind = d.tl.kinds[d.e.kind[i]];
  if (d.e.kernel[i] >= 0) return familyColour(d.tl.kernels[d.e.kernel[i]].kind);
  return d.e.kind[i] < 4 ? familyColour(kind) : HOST_COLOURS[kind] ?? HOST_COLOURS.other;
}

function fitText(c, text, x, y, room) {
  let shown = text;
  while (shown.length > 2 && c.measureText(shown).width > room) shown = `${shown.slice(0, -2)}…`;
  c.fillText(shown, x, y);
}

/** A time on the axis, in the unit of the visible span. */
function axisTime(ns, span) {
  const [scale, unit] = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]].find(([s]) => span >= s) ?? [1, "ns"];
  return `${Number((ns / scale).toFixed(span / scale < 5 ? 2 : span / scale < 50 ? 1 : 0))} ${unit}`;
}
