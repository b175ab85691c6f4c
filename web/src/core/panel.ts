// A titled section of the page, and the parts that panels share: tables, legends, notes.

import { type Child, h } from "./dom";
import { whenNear } from "./drawing";
import { t } from "./language";

/** A titled section; `id` is where links lead. */
export function panel(id: string, title: string, about: string | null, ...children: Child[]): HTMLElement {
  return h("section", { id, class: "panel", "aria-labelledby": `${id}-title`, tabindex: "-1" },
    h("h3", { id: `${id}-title` }, title), about ? h("p", { class: "about" }, about) : null, children);
}

/** A panel whose body is made when it comes near the window, so that large pages open at once. */
export function latePanel(id: string, title: string, about: string | null, body: () => Child, height = 240): HTMLElement {
  const place = h("div", { class: "late", style: { minHeight: `${height}px` } });
  const section = panel(id, title, about, place);
  whenNear(place, () => {
    place.style.minHeight = "";
    const made = h("div", {}, body());
    place.replaceWith(...made.childNodes);
  });
  return section;
}

export interface TableColumn<Row> {
  title: string;
  /** What a cell shows. */
  cell: (row: Row, index: number) => Child;
  /** What it is sorted by; columns without cannot be sorted. */
  sort?: (row: Row) => number | string | null;
  /** Text columns stand left, figures right. */
  text?: boolean;
}

export interface TableOptions<Row> {
  caption: string;
  columns: TableColumn<Row>[];
  rows: readonly Row[];
  /** Rows shown at first; the rest behind a button. */
  first?: number;
  /** Pressing a row. */
  press?: (row: Row, index: number) => void;
  /** Called with each row's element as it is made. */
  made?: (element: HTMLTableRowElement, row: Row, index: number) => void;
  /** Texts of a row that the search field looks in; none: no search field. */
  search?: (row: Row) => string;
}

/** A table that sorts by its heads, shows the first rows and the rest on demand, and can be searched. */
export function table<Row>(options: TableOptions<Row>): HTMLElement {
  const { columns, rows, first = 12, search } = options;
  let shown = first, sortBy = -1, falling = true, wanted = "";
  const body = h("tbody");
  const heads = columns.map((column, c) => h("th", { scope: "col", class: column.text ? "text" : null },
    column.sort ? h("button", { type: "button", onclick: () => { falling = sortBy === c ? !falling : true; sortBy = c; draw(); } }, column.title) : column.title));
  const more = h("button", { type: "button", class: "more", onclick: () => { shown = shown >= rows.length ? first : rows.length; draw(); } });
  const draw = () => {
    let order = rows.map((_, i) => i);
    if (search && wanted) order = order.filter((i) => search(rows[i] as Row).toLowerCase().includes(wanted));
    const by = columns[sortBy]?.sort;
    if (by) order.sort((a, b) => compare(by(rows[a] as Row), by(rows[b] as Row)) * (falling ? -1 : 1));
    heads.forEach((head, c) => {
      if (c === sortBy) head.setAttribute("aria-sort", falling ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    body.replaceChildren(...order.slice(0, shown).map((i) => rowElement(options, i)));
    more.hidden = order.length <= first;
    more.textContent = shown >= order.length ? t("Show fewer") : t("Show all {n}", { n: order.length });
  };
  draw();
  const field = search ? h("input", { type: "search", placeholder: t("Search"), "aria-label": t("Search") + ": " + options.caption, oninput: (e: Event) => { wanted = (e.target as HTMLInputElement).value.toLowerCase(); draw(); } }) : null;
  return h("div", { class: "table" }, field ? h("div", { class: "tools" }, field) : null,
    h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": options.caption }, h("table", {}, h("caption", { class: "hidden" }, options.caption), h("thead", {}, h("tr", {}, heads)), body)), more);
}

function rowElement<Row>(options: TableOptions<Row>, i: number): HTMLTableRowElement {
  const row = options.rows[i] as Row;
  const element = h("tr", {}, options.columns.map((column, c) =>
    h(c === 0 ? "th" : "td", { scope: c === 0 ? "row" : null, class: column.text ? "text" : null }, column.cell(row, i))));
  const press = options.press;
  if (press) {
    element.classList.add("pressable");
    element.tabIndex = 0;
    element.addEventListener("click", () => press(row, i));
    element.addEventListener("keydown", (e) => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); press(row, i); } });
  }
  options.made?.(element, row, i);
  return element;
}

function compare(a: number | string | null, b: number | string | null): number {
  if (a === null || b === null) return a === b ? 0 : a === null ? -1 : 1;
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
}

/** Swatches with their names. */
export const legend = (items: { label: string; colour: string; value?: string }[]): HTMLElement =>
  h("ul", { class: "legend" }, items.map((item) =>
    h("li", {}, h("i", { class: "swatch", style: { background: item.colour } }), item.label, item.value ? h("b", {}, item.value) : null)));

/** Details that open: the figures of a picture as a table, for those who cannot see it. */
export const asTable = (content: () => Child): HTMLElement => {
  const details = h("details", { class: "as-table" }, h("summary", {}, t("As a table")));
  details.addEventListener("toggle", () => { if (details.open && details.childElementCount === 1) details.append(h("div", {}, content())); });
  return details;
};
