// The step by module, as an icicle: width is time, each level lies inside the one above.

const LEVEL = 30;

/** The folded module rows as a tree; the root holds what is beside the model (the optimizer). */
function moduleTree(rows) {
  const root = { label: t("step"), time_s: 0, children: [], row: null, parent: null, depth: -1 };
  const path = [root];
  for (const row of rows) {
    path.length = row.depth + 1;
    const parent = path[row.depth] ?? root;
    const node = { label: moduleLabel(row), time_s: row.time_s, row, children: [], parent, depth: row.depth };
    parent.children.push(node);
    path.push(node);
  }
  root.time_s = root.children.reduce((sum, child) => sum + child.time_s, 0);
  return root;
}

function moduleLabel(row) {
  if (row.path.startsWith("(")) return t(row.path.slice(1, -1));
  const folded = row.path.match(/\{(\d+)\.\.(\d+)\}$/);
  if (folded) return `${folded[1]}…${folded[2]} ×${Number(folded[2]) - Number(folded[1]) + 1}`;
  return row.path.split(".").at(-1) || t("model");
}

function modulesPanel() {
  const rows = run().modules_folded;
  if (!rows.some((row) => row.depth > 0)) return null;
  const root = moduleTree(rows);
  let focus = root;
  const crumbs = h("div", { class: "crumbs", "aria-live": "polite" });
  const box = h("div", { class: "icicle" });
  const show = (node) => { focus = node; hideTip(); render(); };
  const render = () => {
    crumbs.replaceChildren(...trail(focus).flatMap((node, i, all) => [i ? " › " : "",
      i === all.length - 1 ? h("b", {}, node.label) : h("button", { type: "button", onclick: () => show(node) }, node.label)]),
      ` ${time(focus.time_s)}`);
    drawIcicle(box, focus, show);
  };
  onResize(box, render);
  const table = h("details", {}, h("summary", {}, t("As a table")), moduleTable(rows));
  const panel = section("modules", t("By module"),
    t("Device time of each part of the model, width by time, equal layers in one. Press a part to look inside it."),
    crumbs, box, table);
  panel.classList.add("long");
  return panel;
}

function trail(node) {
  const nodes = [];
  for (let at = node; at; at = at.parent) nodes.unshift(at);
  return nodes;
}

function drawIcicle(box, focus, show) {
  const cells = [], width = box.clientWidth || 800;
  let deepest = 0;
  const visit = (node, left, share, level, branch) => {
    if (share * width < 2) return;
    deepest = Math.max(deepest, level);
    cells.push(icicleCell(node, left, share, level, branch, share * width, show));
    let at = left;
    node.children.forEach((child, i) => {
      const part = node.time_s > 0 ? (child.time_s / node.time_s) * share : 0;
      visit(child, at, part, level + 1, node.row === null || node.row.path === "" ? i : branch);
      at += part;
    });
  };
  visit(focus, 0, 1, 0, branchOf(focus));
  box.style.height = `${(deepest + 1) * LEVEL}px`;
  box.replaceChildren(...cells);
}

function branchOf(node) {
  for (let at = node; at?.parent; at = at.parent) {
    if (at.parent.row === null || at.parent.row.path === "") return at.parent.children.indexOf(at);
  }
  return 0;
}

function icicleCell(node, left, share, level, branch, pixels, show) {
  const base = BRANCH_COLOURS[branch % BRANCH_COLOURS.length];
  const outer = node.row === null || node.row.path === "";
  const cell = h("button", {
    type: "button", class: outer ? "light" : "", "aria-label": `${node.row?.path || node.label}, ${time(node.time_s)}`,
    style: {
      left: `${left * 100}%`, width: `${share * 100}%`, top: `${level * LEVEL}px`,
      background: outer ? "var(--idle)" : `color-mix(in srgb, ${base} ${100 - Math.min(4, Math.max(0, node.depth - 1)) * 11}%, #0b1220)`,
    },
    onclick: () => show(node),
  }, pixels > 30 ? node.label : "");
  if (outer) cell.style.color = "var(--ink)";
  const row = node.row, step = run().analysis.step_s;
  return tipped(cell, row?.path || node.label, [
    row?.class_name, `${time(node.time_s)} (${percent(node.time_s / step)})`,
    row?.forward_s ? `${t("forward")}${t(": ")}${time(row.forward_s)}` : null, row?.backward_s ? `${t("backward")}${t(": ")}${time(row.backward_s)}` : null,
    row?.parameters ? `${t("parameters")}${t(": ")}${count(row.parameters)}` : null, row?.flops ? flops(row.flops) : null,
  ]);
}

function moduleTable(rows) {
  const body = rows.map((row) => h("tr", {},
    h("th", { scope: "row", class: "name", style: { paddingLeft: `${row.depth * 14}px` }, title: row.path }, moduleLabel(row)),
    h("td", { class: "l dim" }, row.class_name), h("td", {}, time(row.time_s)), h("td", {}, percent(row.time_s / run().analysis.step_s)),
    h("td", {}, row.forward_s ? time(row.forward_s) : ""), h("td", {}, row.backward_s ? time(row.backward_s) : ""),
    h("td", {}, row.parameters ? count(row.parameters) : "")));
  const titles = [t("module"), "", t("time"), t("of step"), t("forward"), t("backward"), t("parameters")];
  return h("div", { class: "scroll" }, h("table", {},
    h("thead", {}, h("tr", {}, titles.map((title, i) => h("th", { scope: "col", class: i < 2 ? "l" : "" }, title)))), h("tbody", {}, body)));
}
