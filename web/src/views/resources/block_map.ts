// Memory block by block: time across, the allocator's addresses up; holes are what nothing holds.

import { CATEGORIES, OTHER } from "../../core/colours";
import { css, h, hideTip, showTip } from "../../core/dom";
import { onResize } from "../../core/drawing";
import { count, size, time } from "../../core/format";
import { t, word } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { asTable, latePanel, legend, table } from "../../core/panel";
import { onTheme } from "../../core/theme";
import { blockAt, heldAt, type Placed, placed } from "./block_map_data";

const TALL = 420, FRAMES = 6;

export function blockMapPanel(page: ReportPage): HTMLElement | null {
  const columns = page.run.memory_blocks;
  if (!columns?.address.length) return null;
  return latePanel("blocks", t("Memory, block by block"),
    t("Each rectangle is one block of the allocator: from when to when it was there, and where it lies. Segments stand one above the other; what is empty between blocks is free, and larger requests do not fit there. Point at a block for its tensor, module and line; press it for the stretch in which it lives."),
    () => new BlockMap(page, placed(columns)).body(), 520);
}

const colourOf = (name: string): string => CATEGORIES[name] ?? OTHER;

class BlockMap {
  private width = 0;
  private readonly canvas = h("canvas", { role: "img" });
  private readonly line = h("i", { class: "sm-now", hidden: true });
  private readonly axis = h("div", { class: "sm-axis" });
  private readonly words = h("p", { class: "res-verdict" });
  private readonly place = h("div", { class: "block-map" }, this.canvas, this.line);

  constructor(private readonly page: ReportPage, private readonly p: Placed) {}

  body(): HTMLElement[] {
    const { page, place, canvas, p } = this, { columns } = p;
    onResize(place, () => this.draw());
    const end = onTheme(() => { if (place.isConnected) this.draw(); else end(); });
    page.cursor?.onSeen(place, () => this.mark());
    this.tell(this.fullest());
    canvas.addEventListener("pointermove", (e) => this.hover(e));
    canvas.addEventListener("pointerleave", hideTip);
    canvas.addEventListener("click", (e) => { const i = this.under(e); if (i >= 0) this.choose(i); });
    const kinds = [...new Set(columns.category)].filter((k) => k >= 0).map((k) => columns.words[k] as string);
    return [this.words, place, this.axis, legend([...kinds.map((name) => ({ label: word(name), colour: colourOf(name) })), { label: t("free in a segment"), colour: "var(--wash)" }]),
      ...(columns.left_out ? [h("p", { class: "res-note" }, t("{n} blocks that weigh least, of {size} at most each, are not drawn.", { n: count(columns.left_out), size: size(columns.left_out_bytes) }))] : []),
      asTable(() => this.table())];
  }

  private draw(): void {
    const { canvas, place, p } = this, width = (this.width = place.clientWidth), ratio = Math.min(2, devicePixelRatio || 1), c = canvas.getContext("2d");
    if (!width || !c) return;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(TALL * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${TALL}px`;
    const { columns } = p, x = (ns: number) => ((ns - columns.begin_ns) / (columns.end_ns - columns.begin_ns)) * canvas.width, y = (place_: number) => canvas.height * (1 - place_ / p.total);
    c.fillStyle = css("--wash");
    c.fillRect(0, 0, canvas.width, canvas.height);
    const edge = css("--paper"), lines = ratio;
    for (let i = 0; i < columns.address.length; i++) {
      const left = x(p.born[i] as number), right = x(p.died[i] as number), top = y((p.place[i] as number) + (columns.nbytes[i] as number)), tall = y(p.place[i] as number) - top, wide = Math.max(1, right - left);
      c.fillStyle = colourOf(columns.words[columns.category[i] as number] ?? "");
      c.fillRect(left, top, wide, Math.max(0.35, tall));
      if (tall > 5 * ratio && wide > 4 * ratio) { c.strokeStyle = edge; c.lineWidth = lines / 2; c.strokeRect(left, top, wide, tall); }
    }
    c.fillStyle = css("--line");
    if (p.starts.length < 60) for (const start of p.starts) c.fillRect(0, y(start) - lines / 2, canvas.width, lines / 2);
    canvas.setAttribute("aria-label", t("{n} blocks in {segments} segments of {size} in all.", { n: count(columns.address.length), segments: count(columns.segments.length), size: size(p.total) }));
    canvas.dataset.total = String(p.total);
    this.axis.replaceChildren(...[0, 0.25, 0.5, 0.75, 1].map((share) => h("span", {}, time(share * (columns.end_ns - columns.begin_ns) * 1e-9))));
    this.mark();
  }

  private mark(): void {
    const at = this.page.cursor?.at ?? null, { columns } = this.p;
    this.line.hidden = at === null || at < columns.begin_ns || at > columns.end_ns;
    if (at !== null) this.line.style.transform = `translateX(${((at - columns.begin_ns) / (columns.end_ns - columns.begin_ns)) * this.width}px)`;
    this.tell(at ?? this.fullest());
  }

  private told: number | null = null;

  /** What is held at a moment, and what is free and where. */
  private tell(at: number): void {
    if (this.told === at) return;
    this.told = at;
    const { columns } = this.p, held = heldAt(this.p, Math.min(columns.end_ns, Math.max(columns.begin_ns, at)));
    this.words.textContent = t("At {time}: {bytes} in {blocks} blocks. Free beside them in the same segments: {holes}, at most {largest} in one piece; in segments without any: {cached}.", {
      time: time((at - columns.begin_ns) * 1e-9), bytes: size(held.bytes), blocks: count(held.blocks), holes: size(held.holes), largest: size(held.largest), cached: size(held.cached) });
  }

  private most: number | null = null;

  /** The begin of the moment with most memory. */
  private fullest(): number {
    if (this.most !== null) return this.most;
    const { p } = this, changes = [...p.born].map((at, i): [number, number] => [at, p.columns.nbytes[i] as number]);
    p.died.forEach((at, i) => { if ((p.columns.died_ns[i] as number) >= 0) changes.push([at, -(p.columns.nbytes[i] as number)]); });
    changes.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    let held = 0, most = -1, when = p.columns.begin_ns;
    changes.forEach(([at, bytes], k) => { held += bytes; if (held > most && changes[k + 1]?.[0] !== at) { most = held; when = at; } });
    return (this.most = when);
  }

  private under(e: MouseEvent): number {
    const box = this.canvas.getBoundingClientRect(), { p } = this, { columns } = p;
    return blockAt(p, (1 - (e.clientY - box.top) / box.height) * p.total, columns.begin_ns + ((e.clientX - box.left) / box.width) * (columns.end_ns - columns.begin_ns));
  }

  private hover(e: PointerEvent): void {
    const i = this.under(e);
    if (i < 0) return hideTip();
    const { columns } = this.p, about = this.about(i), stack = columns.stacks[columns.stack[i] as number] ?? [];
    showTip(e.clientX, e.clientY, about.tensor || word(about.category), [size(columns.nbytes[i] as number), word(about.category), about.owner && `${t("module")}${t(": ")}${about.owner}`, about.site && `${t("line")}${t(": ")}${about.site}`, this.life(i), ...stack.slice(0, FRAMES).map((k) => columns.words[k] as string)]);
  }

  /** Whose a block is. */
  private about(i: number): { tensor: string; category: string; owner: string; site: string } {
    const { columns } = this.p, ops = this.page.run.timeline?.ops, text = (row: number) => columns.words[row] ?? "", site = ops?.columns.site?.[columns.op[i] as number];
    return { tensor: t(text(columns.label[i] as number)), category: text(columns.category[i] as number), owner: text(columns.owner[i] as number), site: site === undefined ? "" : (ops?.sites?.[site] ?? "") };
  }

  private life(i: number): string {
    const { columns, born, died } = this.p, from = time(((born[i] as number) - columns.begin_ns) * 1e-9);
    const begins = (columns.born_ns[i] as number) < 0, ends = (columns.died_ns[i] as number) < 0;
    if (begins && ends) return t("there all the time");
    if (begins) return t("there before, freed after {time}", { time: time(((died[i] as number) - columns.begin_ns) * 1e-9) });
    return ends ? t("from {time}, and stays", { time: from }) : t("from {time}, for {length}", { time: from, length: time(((died[i] as number) - (born[i] as number)) * 1e-9) });
  }

  private choose(i: number): void {
    const { page, p } = this, op = p.columns.op[i] as number, tl = page.run.timeline, about = this.about(i);
    const events = op >= 0 && tl ? page.model.eventsWhere((event) => tl.events.op[event] === op) : [];
    page.selections.choose(page.model, "blocks", `${about.tensor || word(about.category)} · ${size(p.columns.nbytes[i] as number)}`, events, { range: [p.born[i] as number, p.died[i] as number] });
  }

  private table(): HTMLElement {
    const { p } = this, { columns } = p, rows = [...columns.nbytes.keys()].sort((a, b) => (columns.nbytes[b] as number) - (columns.nbytes[a] as number));
    const text = (i: number) => Object.values(this.about(i)).join(" ");
    return table({ caption: t("Memory, block by block"), rows, search: text, press: (i) => this.choose(i), columns: [
      { title: t("tensor"), cell: (i) => this.about(i).tensor, sort: (i) => this.about(i).tensor, text: true },
      { title: t("what it holds"), cell: (i) => word(this.about(i).category), sort: (i) => this.about(i).category, text: true },
      { title: t("module"), cell: (i) => this.about(i).owner, sort: (i) => this.about(i).owner, text: true },
      { title: t("line"), cell: (i) => this.about(i).site, sort: (i) => this.about(i).site, text: true },
      { title: t("memory"), cell: (i) => size(columns.nbytes[i] as number), sort: (i) => columns.nbytes[i] as number },
      { title: t("life"), cell: (i) => this.life(i), sort: (i) => (p.died[i] as number) - (p.born[i] as number), text: true },
    ] });
  }
}
