// Puts the panels together, and switches run, language and theme.

const PANELS = [trustPanel, findingsPanel, classesPanel, hostPanel, idlePanel, rankTimesPanel, ranksPanel, timelinePanel, pathPanel, rooflinePanel, modulesPanel,
  memoryPanel, tasksPanel, operatorsPanel, symbolsPanel, launchesPanel, copiesPanel, stepsPanel, notesPanel];

/** Draw the whole page for the chosen run and language. */
function build() {
  redraws.length = 0;
  hideTip();
  const main = document.getElementById("main");
  const classes = h("div", { class: "pair" }, [familiesPanel(), phasesPanel()].filter(Boolean));
  const panels = [];
  for (const panel of PANELS) {
    panels.push(panel());
    if (panel === classesPanel) panels.push(pacePanel(), classes.childElementCount ? classes : null);
  }
  main.replaceChildren(...[runChooser(), headline(), sideBySidePanel(), ...panels, footer()].filter(Boolean));
  document.documentElement.lang = state.lang === "zh" ? "zh-CN" : "en";
  document.querySelectorAll("[data-t]").forEach((element) => { element.textContent = t(element.dataset.t); });
  contents(main);
  switches();
  for (const redraw of redraws) redraw();
}

function contents(main) {
  const nav = document.getElementById("contents");
  nav.setAttribute("aria-label", t("Contents"));
  nav.replaceChildren(...[...main.querySelectorAll("section")].filter((s) => !["pace", "families", "phases"].includes(s.id))
    .map((s) => h("a", { href: `#${s.id}` }, s.querySelector("h2").textContent)));
}

function runChooser() {
  if (DATA.runs.length < 2) return null;
  return h("div", { class: "runs", role: "group", "aria-label": t("Runs") }, DATA.runs.map((r, i) =>
    h("button", { type: "button", class: "chip", "aria-pressed": String(i === state.run), onclick: () => chooseRun(i) }, DATA.names[i])));
}

function chooseRun(i) {
  if (i === state.run) return;
  state.run = i;
  build();
}

function footer() {
  return h("footer", {}, t("Written by gpuscope {version}. The data of this page is in it, as JSON.", { version: run().gpuscope_version }));
}

function switches() {
  const language = document.getElementById("language"), theme = document.getElementById("theme");
  language.textContent = state.lang === "zh" ? "English" : "中文";
  language.lang = state.lang === "zh" ? "en" : "zh-CN";
  language.onclick = () => { state.lang = state.lang === "zh" ? "en" : "zh"; build(); };
  const dark = document.documentElement.dataset.theme === "dark";
  theme.textContent = dark ? t("Light") : t("Dark");
  theme.onclick = () => setTheme(dark ? "light" : "dark", true);
}

/** Set the theme; what the reader chose is kept for this page's next opening where that is allowed. */
function setTheme(name, chosen = false) {
  document.documentElement.dataset.theme = name;
  if (chosen) { state.theme = name; try { localStorage.setItem("gpuscope-theme", name); } catch { /* private windows */ } }
  switches();
  for (const redraw of redraws) redraw();
}

function startTheme() {
  const wish = matchMedia("(prefers-color-scheme: dark)");
  try { state.theme = localStorage.getItem("gpuscope-theme"); } catch { /* private windows */ }
  document.documentElement.dataset.theme = state.theme ?? (wish.matches ? "dark" : "light");
  wish.addEventListener("change", () => { if (!state.theme) setTheme(wish.matches ? "dark" : "light"); });
  let before = null;
  addEventListener("beforeprint", () => { before = document.documentElement.dataset.theme; setTheme("light"); timeline?.draw(); });
  addEventListener("afterprint", () => { if (before) setTheme(before); });
}

addEventListener("scroll", hideTip, { passive: true });
startTheme();
build();
