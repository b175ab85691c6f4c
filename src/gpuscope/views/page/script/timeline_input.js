// Pointer, wheel and keys of the timeline, and the panel around it.

Timeline.prototype.listen = function listen() {
  const c = this.canvas;
  c.addEventListener("wheel", (e) => this.onWheel(e), { passive: false });
  c.addEventListener("pointerdown", (e) => this.onDown(e));
  c.addEventListener("pointermove", (e) => this.onMove(e));
  c.addEventListener("pointerup", (e) => this.onUp(e));
  c.addEventListener("pointercancel", (e) => { this.pointers.delete(e.pointerId); this.range = null; });
  c.addEventListener("pointerleave", hideTip);
  c.addEventListener("dblclick", () => this.fit());
  c.addEventListener("keydown", (e) => this.onKey(e));
};

/** Scrolling zooms once the timeline has been clicked (or with Ctrl), so that the page still scrolls. */
Timeline.prototype.onWheel = function onWheel(e) {
  if (document.activeElement !== this.canvas && !e.ctrlKey && !e.metaKey) return;
  e.preventDefault();
  if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) return this.pan((e.deltaX || e.deltaY) / 800);
  this.zoom(Math.exp(Math.max(-60, Math.min(60, e.deltaY)) / 180), e.offsetX);
};

Timeline.prototype.onDown = function onDown(e) {
  this.canvas.focus({ preventScroll: true });
  this.canvas.setPointerCapture(e.pointerId);
  this.pointers.set(e.pointerId, e.offsetX);
  this.moved = false;
  this.range = e.shiftKey ? [e.offsetX, e.offsetX] : null;
};

Timeline.prototype.onMove = function onMove(e) {
  if (!this.pointers.has(e.pointerId)) return this.hover(e);
  const before = this.pointers.get(e.pointerId);
  if (Math.abs(e.offsetX - before) < 3 && !this.moved) return;
  this.moved = true;
  hideTip();
  this.canvas.classList.add("drag");
  if (this.pointers.size === 2) return this.pinch(e);
  if (this.range) { this.range[1] = e.offsetX; return this.request(); }
  this.pointers.set(e.pointerId, e.offsetX);
  this.pan((before - e.offsetX) / (this.width - this.left));
};

Timeline.prototype.pinch = function pinch(e) {
  const [a, b] = [...this.pointers.values()];
  this.pointers.set(e.pointerId, e.offsetX);
  const [p, q] = [...this.pointers.values()];
  if (Math.abs(p - q) > 4) this.zoom(Math.abs(a - b) / Math.abs(p - q), (p + q) / 2);
};

Timeline.prototype.onUp = function onUp(e) {
  this.pointers.delete(e.pointerId);
  this.canvas.classList.remove("drag");
  if (this.range && this.moved) {
    const [from, to] = [this.time(Math.min(...this.range)), this.time(Math.max(...this.range))];
    this.range = null;
    return this.show(from, to);
  }
  this.range = null;
  if (!this.moved) this.select(this.hit(e.offsetX, e.offsetY));
};

Timeline.prototype.hover = function hover(e) {
  const i = this.hit(e.offsetX, e.offsetY);
  if (i < 0) return hideTip();
  const { title, facts } = describeEvent(this.d, i);
  showTip(e.clientX, e.clientY, title, facts.slice(0, 7).map(([label, value]) => `${label}${t(": ")}${value}`));
};

Timeline.prototype.onKey = function onKey(e) {
  const acts = {
    ArrowLeft: () => this.pan(-0.15), ArrowRight: () => this.pan(0.15),
    "+": () => this.zoom(0.6), "=": () => this.zoom(0.6), "-": () => this.zoom(1 / 0.6),
    0: () => this.fit(), Home: () => this.fit(), "[": () => this.step(-1), "]": () => this.step(1),
    Escape: () => this.select(-1),
  };
  if (!acts[e.key] || e.ctrlKey || e.metaKey) return;
  e.preventDefault();
  acts[e.key]();
};

/** One button a rank; null where there is only one. */
function rankChips(ranks) {
  if (ranks.length < 2) return null;
  return h("div", { class: "tools", role: "group", "aria-label": t("rank") }, h("span", { class: "dim" }, t("rank")), ranks.map((rank) =>
    h("button", { type: "button", class: "chip", "aria-pressed": String(rank === state.rank), onclick: () => chooseRank(rank) }, String(rank))));
}

/** Draw the timeline of another rank in place. */
function chooseRank(rank) {
  if (rank === state.rank) return;
  const [from, to] = timeline?.view ?? [];
  state.rank = rank;
  document.getElementById("timeline").replaceWith(timelinePanel());
  if (from !== undefined) timeline.show(from, to);
}

function timelinePanel() {
  const ranks = laneRanks(run());
  if (!ranks.includes(state.rank)) state.rank = run().ranks.find((rank) => ranks.includes(rank)) ?? ranks[0] ?? null;
  const d = timelineData(run(), ranks.length > 1 ? state.rank : null);
  timeline = null;
  if (!d) return null;
  timeline = new Timeline(d);
  const button = (label, title, act) => h("button", { type: "button", title, "aria-label": title, onclick: act }, label);
  const tools = h("div", { class: "tools" },
    button("+", t("Zoom in"), () => timeline.zoom(0.6)), button("−", t("Zoom out"), () => timeline.zoom(1 / 0.6)),
    button(t("Fit"), t("Show the whole step"), () => timeline.fit()),
    button("←", t("Move left"), () => timeline.pan(-0.3)), button("→", t("Move right"), () => timeline.pan(0.3)));
  const box = h("div", { class: "canvas" }, timeline.canvas);
  const own = timeline;
  onResize(box, () => own.request());
  return section("timeline", t("Timeline"),
    t("When everything happens. Upper lanes: the host, issuing operators. Lower lanes: the device. Gaps in the device's lanes are idle time; dashed lines mark the step."),
    rankChips(ranks), tools, box, timelineLegend(d),
    h("p", { class: "keys" }, t("Click, then scroll to zoom; drag to move; Shift and drag to zoom into a range; keys + − ← → 0, [ and ] step through the events.") + (d.tl.truncation ? ` ${d.tl.truncation}` : "")),
    timeline.detail);
}

function timelineLegend(d) {
  const kinds = new Map();
  for (const k of d.tl.kernels) kinds.set(word(k.kind), familyColour(k.kind));
  const host = new Set(d.e.kind);
  for (const name of ["operator", "launch", "sync"]) {
    if (host.has(d.tl.kinds.indexOf(name))) kinds.set(t(`host ${name}`), HOST_COLOURS[name]);
  }
  return h("div", { class: "families" }, [...kinds].map(([name, colour]) => h("span", {}, h("i", { style: { background: colour } }), name)));
}
