// Data, language, elements, tooltips: what every panel uses.

const DATA = JSON.parse(document.getElementById("data").textContent);
const state = { run: 0, lang: DATA.lang, event: -1, zoomed: null, rank: null };
const redraws = [];

/** The text in the reader's language, with {names} filled in. */
function t(text, values = {}) {
  const found = state.lang === "zh" ? DATA.strings[text] ?? text : text;
  return found.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

/** A stable word of the data, such as "tensor_core". */
const word = (name) => t(name.replaceAll("_", " "));

/** A time class; "idle: " and its cause are two texts. */
function classLabel(label) {
  const [kind, cause] = label.split(": ");
  return cause ? t(kind) + t(": ") + t(cause) : t(label);
}

const operatorLabel = (name) => name.replace(/^(aten|gpuscope)::/, "");
const run = () => DATA.runs[state.run];

/** Make an HTML element; children may be text, elements, arrays or null. */
function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Make an SVG element. */
function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

/** A titled section, also listed in the contents. */
function section(id, title, about, ...children) {
  return h("section", { id, "aria-labelledby": `${id}-title` },
    h("h2", { id: `${id}-title` }, title), about ? h("p", { class: "about" }, about) : null, children);
}

/** A value of the style sheet, for canvases. */
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const tip = document.getElementById("tip");

/** Show a tooltip beside the pointer: a title and lines. */
function showTip(x, y, title, lines) {
  tip.replaceChildren(h("b", {}, title), ...lines.filter(Boolean).map((line) => h("div", {}, line)));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = x + 14 + box.width > innerWidth ? x - box.width - 14 : x + 14;
  const top = y + 16 + box.height > innerHeight ? y - box.height - 12 : y + 16;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${Math.max(4, top)}px`;
}

const hideTip = () => { tip.hidden = true; };

/** Let an element show a tooltip under the pointer and on focus. */
function tipped(element, title, lines) {
  element.addEventListener("pointermove", (e) => showTip(e.clientX, e.clientY, title, lines));
  element.addEventListener("pointerleave", hideTip);
  element.addEventListener("focus", () => {
    const box = element.getBoundingClientRect();
    showTip(box.right, box.top, title, lines);
  });
  element.addEventListener("blur", hideTip);
  return element;
}

/** Call `act` on click, Enter and Space. */
function pressable(element, act) {
  element.addEventListener("click", act);
  element.addEventListener("keydown", (e) => {
    if (e.key === "Enter" || e.key === " ") { e.preventDefault(); act(e); }
  });
  return element;
}

/** Draw now, and again when the width changes. */
function onResize(element, draw) {
  let width = 0;
  const observer = new ResizeObserver(() => {
    if (!element.isConnected) return observer.disconnect();
    if (element.clientWidth !== width) { width = element.clientWidth; draw(); }
  });
  observer.observe(element);
  redraws.push(draw);
}
