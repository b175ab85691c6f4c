// How the work is split: grids of thread blocks, and the waves in which the device runs them.

const MOST_WAVES = 8;

function tasksPanel() {
  const tasks = run().analysis.tasks.filter((task) => task.time_s > 0);
  if (!tasks.some((task) => task.waves > 0)) return null; // the host's own work has no waves
  let chosen = tasks.find((task) => task.waves > 0);
  const picture = h("div", { class: "detail" });
  const showPicture = () => picture.replaceChildren(...slotPicture(chosen));
  const lost = (task) => (task.waves > 0 ? task.tail_loss * task.time_s : 0);
  const table = sortable([
    column(t("kernel"), (x) => x.label, (x) => x.label, "name"),
    column(t("time"), (x) => x.time_s, (x) => time(x.time_s)),
    column(t("count"), (x) => x.count, (x) => count(x.count)),
    column(t("blocks"), (x) => x.grid, (x) => count(x.grid)),
    column(t("tile"), (x) => x.tile.join("×"), (x) => x.tile.join("×")),
    column(t("waves"), (x) => x.waves, (x) => [x.waves > 0 ? wavePicture(x) : "", " ", x.waves > 0 ? digits(x.waves) : ""]),
    column(t("left empty"), lost, (x) => (x.waves > 0 ? h("span", { class: x.tail_loss > 0.25 ? "lost" : x.tail_loss > 0.1 ? "some" : "" }, percent(x.tail_loss)) : "")),
    column(t("warps"), (x) => x.occupancy, (x) => (x.occupancy === null ? "" : `${Math.round(x.occupancy * 100)} %`)),
    column(t("limited by"), (x) => x.limiter, (x) => word(x.limiter), "l"),
  ], tasks, { limit: 10, press: (x) => { chosen = x; showPicture(); }, selected: (x) => x === chosen });
  showPicture();
  const panel = section("tasks", t("How the work is split"),
    t("A kernel is a grid of thread blocks. The device runs as many at once as it has room for: one wave. A last wave that is not full leaves units empty.") + " " + t("Press a row to see its last wave."),
    table, picture);
  panel.classList.add("long");
  return panel;
}

/** Waves as small boxes, the last one filled as far as it is full. */
function wavePicture(task) {
  const whole = Math.floor(task.waves + 1e-9), part = task.waves - whole;
  const fills = [...new Array(Math.min(whole, MOST_WAVES)).fill(1), ...(part > 1e-6 ? [part] : [])];
  const cut = whole > MOST_WAVES, width = 13;
  const picture = svg("svg", { class: "waves", width: fills.length * width + (cut ? 12 : 0), height: 14, "aria-hidden": "true" });
  fills.forEach((fill, i) => {
    const x = i * width + (cut && i >= MOST_WAVES ? 12 : 0);
    picture.append(svg("rect", { x: x + 0.5, y: 0.5, width: width - 3, height: 13, fill: "none", stroke: "var(--faint)" }),
      svg("rect", { x: x + 1, y: 13 - 12 * fill, width: width - 4, height: 12 * fill, fill: familyColour(task.kind) }));
  });
  if (cut) picture.append(svg("text", { x: MOST_WAVES * width, y: 11, style: { fill: "var(--soft)", fontSize: "11px" } }, "…"));
  return picture;
}

/** The machine's block slots during the last wave: filled or empty. */
function slotPicture(task) {
  const title = h("h3", {}, task.label);
  if (!(task.waves > 0)) return [title, h("span", { class: "dim" }, t("Its waves are not known."))];
  const slots = Math.max(1, Math.round(task.grid / task.waves));
  const rest = task.grid % slots, used = rest === 0 ? slots : rest;
  const sentence = task.waves <= 1
    ? t("{used} of {slots} places for blocks are taken: the kernel is smaller than the machine.", { used: count(task.grid), slots: count(slots) })
    : t("{grid} blocks run in {waves} waves of {slots}; in the last one {used} places are taken and {empty} stay empty.",
      { grid: count(task.grid), waves: Math.ceil(task.waves - 1e-9), slots: count(slots), used: count(used), empty: count(slots - used) });
  return [title, h("p", {}, sentence), slots <= 4096 ? drawSlots(slots, used, familyColour(task.kind)) : null].filter(Boolean);
}

function drawSlots(slots, used, colour) {
  const cell = slots > 1200 ? 6 : slots > 400 ? 9 : 13, columns = Math.min(slots, Math.floor(780 / cell)), rows = Math.ceil(slots / columns);
  const picture = svg("svg", { class: "slots", viewBox: `0 0 ${columns * cell} ${rows * cell}`, style: { width: "100%", maxWidth: `${columns * cell}px` }, role: "img", "aria-label": `${used} / ${slots}` });
  const path = (from, to) => { let d = ""; for (let i = from; i < to; i++) d += `M${(i % columns) * cell + 0.5},${Math.floor(i / columns) * cell + 0.5}h${cell - 2}v${cell - 2}h${2 - cell}z`; return d; };
  picture.append(svg("path", { d: path(0, used), fill: colour }), svg("path", { d: path(used, slots), fill: "none", stroke: "var(--faint)", "stroke-width": "1" }));
  return picture;
}
