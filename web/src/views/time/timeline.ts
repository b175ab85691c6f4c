// The timeline: when everything happened, on host and device, of all ranks, down to the single kernel.

import { h } from "../../core/dom";
import { count, time } from "../../core/format";
import { t } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { asTable, latePanel } from "../../core/panel";
import type { Selection } from "../../core/selection";
import { companions, longestOf } from "./belongs";
import { detailOf, hoverTip } from "./detail";
import { withCursor } from "./cursor_line";
import { listen } from "./input";
import { type Limits, limitsOf } from "./limits";
import { longestTable } from "./longest";
import { minimap } from "./minimap";
import { eventsWithin, stretchTitle } from "./moment";
import { pathLine } from "./path_line";
import { onPathWish, pathWished, wishPath } from "./path_wish";
import { rankChooser } from "./rank_chooser";
import { firstAfter } from "./rows";
import { Scene, longest } from "./scene";
import { searchBox } from "./search";
import { timelineLegend } from "./timeline_legend";
import { AXIS, type Source, hasDepth, lanesOf, tracksOf } from "./tracks";
import { deviceRanks, laneRanks, mainRank } from "./window";

/** Ranks that are shown in full at first; of more, as many again as lines, so that all stand on one axis. */
const RANKS = 4, LINES = 64;

/** The panel; null without events. */
export function timelinePanel(page: ReportPage): HTMLElement | null {
  const tl = page.run.timeline;
  if (!tl?.events.start_ns.length) return null;
  const about = t("When everything happens. Of a rank from above: phase and modules of what the device does; the host, issuing operators; the device; in a thin lane moments in which it did nothing, by cause. Below: what its units do, and memory. Dashed lines mark the steps.");
  return latePanel("timeline", t("Timeline"), about, () => new TimelineBody(page).element, 420);
}

class TimelineBody {
  readonly element: HTMLElement;
  private readonly source: Source;
  private readonly scene: Scene;
  private readonly limits: Limits;
  private readonly detail = h("div", { class: "detail", "aria-live": "polite" });
  private readonly legend = h("div");
  private readonly map: { element: HTMLElement; redraw: () => void };
  private readonly path;
  private ranks: Set<number>;
  private deep = false;
  private lanes = true;
  private readonly folded: Set<number>;
  private hosts: boolean;
  private readonly hostChip = h("button", { type: "button", class: "chip", title: t("Show the lanes of the host's threads"), onclick: () => this.showHosts(!this.hosts) }, t("Host lanes"));
  private selection: Selection | null = null;
  private found: Uint8Array | null = null;

  constructor(private readonly page: ReportPage) {
    const { model } = page;
    this.source = { model, offset: 0 };
    this.limits = limitsOf(page.model);
    this.scene = new Scene([this.source], [this.limits.low, this.limits.high], [this.limits.begin, this.limits.high], this.limits.low,
      t("Timeline: arrow keys move, plus and minus zoom, brackets step through the events"));
    const tl = page.run.timeline as NonNullable<typeof page.run.timeline>, all = laneRanks(tl), main = mainRank(tl);
    const first = all.length <= RANKS ? all : [main, ...deviceRanks(tl).filter((rank) => rank !== main)].slice(0, RANKS + LINES);
    this.ranks = new Set(first);
    this.folded = new Set(first.slice(RANKS));
    // Several ranks are read beside each other; their hosts would push them apart.
    this.hosts = this.ranks.size <= 2 || !deviceRanks(tl).length;
    this.path = pathLine(model, 0);
    this.map = minimap(this.scene);
    this.element = h("div", { class: "timeline" }, this.tools(), this.map.element, withCursor(this.scene, page.cursor), this.legend,
      h("p", { class: "keys" }, t("Click, then scroll to zoom; drag to move; drag on the axis to zoom into a stretch; Shift and drag to choose all in it. Keys: W S A D or + − ← → zoom and move, 0 shows all, [ and ] step through the events, Enter zooms to the chosen one, Escape lets go."), tl.truncation ? ` ${t("The {n} longest of {all} events are shown.", { n: count(model.count), all: count(tl.events_total) })}` : ""),
      this.detail, asTable(() => longestTable(page, this.scene, () => this.ranks)));
    listen(this.scene, {
      hover: (point) => hoverTip(this.scene, point, this.limits.low),
      press: (x, y) => this.press(x, y),
      choose: (from, to) => this.chooseRange(from, to),
      step: (by) => this.step(by),
      enter: () => this.zoomToSelected(),
    });
    this.retrack();
    page.selections.on((selection) => this.onSelection(selection));
  }

  private tools(): HTMLElement {
    const { scene, page } = this;
    const button = (label: string, title: string, act: () => void) => h("button", { type: "button", title, "aria-label": label.length > 1 ? null : title, onclick: act }, label);
    const toggle = (label: string, title: string, act: (on: boolean) => void, at = false) => {
      const chip = h("button", { type: "button", class: "chip", title, "aria-pressed": String(at), onclick: () => {
        const on = chip.getAttribute("aria-pressed") !== "true";
        chip.setAttribute("aria-pressed", String(on));
        act(on);
      } }, label);
      return chip;
    };
    const ranks = page.run.timeline ? laneRanks(page.run.timeline) : [];
    return h("div", { class: "tools tl-tools" },
      h("span", { class: "group" }, button("+", t("Zoom in"), () => scene.zoom(0.6)), button("−", t("Zoom out"), () => scene.zoom(1 / 0.6)),
        button("←", t("Move left"), () => scene.pan(-0.3)), button("→", t("Move right"), () => scene.pan(0.3)), button(t("Fit"), t("Show all"), () => scene.fit())),
      this.path ? this.pathToggle() : null,
      ranks.length && page.run.timeline && deviceRanks(page.run.timeline).length ? this.hostChip : null,
      toggle(t("Choose by dragging"), t("Dragging chooses a stretch, as with Shift: for fingers"), (on) => { scene.choosing = on; }),
      toggle(t("Lanes"), t("Show phases, modules, use of the units and memory on the same axis"), (on) => { this.lanes = on; this.retrack(); }, true),
      hasDepth(page.model) ? toggle(t("All call levels"), t("Show Python's frames and the deepest calls too"), (on) => { this.deep = on; this.retrack(); }) : null,
      searchBox(page, (mask) => { this.found = mask; this.relight(); }, (event) => this.go(event)),
      ranks.length > 1 ? rankChooser(ranks, () => this.ranks, (chosen) => { this.ranks = chosen; this.retrack(); }) : null);
  }

  /** Lights the critical path; the panel of the critical path asks for it too. */
  private pathToggle(): HTMLElement {
    const { scene } = this;
    const chip = h("button", { type: "button", class: "chip", title: t("Light what sets the step's length"), onclick: () => wishPath(!pathWished()) }, t("Critical path"));
    let drawn = false;
    onPathWish((on) => {
      drawn ||= chip.isConnected;
      if (drawn && !chip.isConnected) return false;
      chip.setAttribute("aria-pressed", String(on));
      scene.path = on ? this.path : null;
      if (on && drawn) this.showPath();
      this.relight();
      return true;
    });
    return chip;
  }

  /** Bring the lane that most of the critical path is on into view. */
  private showPath(): void {
    const { path, scene } = this;
    if (!path) return;
    const on = new Map<number, number>();
    path.lane.forEach((lane, s) => { if (lane >= 0) on.set(lane, (on.get(lane) ?? 0) + path.end[s] - path.start[s]); });
    const [lane] = [...on].reduce((a, b) => (b[1] > a[1] ? b : a), [-1, 0]), rank = this.page.run.timeline?.lanes[lane]?.rank;
    if (rank !== undefined && !this.ranks.has(rank)) { this.ranks = new Set([...this.ranks, rank]); this.retrack(); }
    const first = scene.tracks.find((track) => track.rank === rank), last = scene.tracks.filter((track) => track.rank === rank).at(-1);
    if (first && last && (first.y < scene.scroll || last.y + last.height > scene.scroll + scene.height)) scene.box.scrollTop = first.y - AXIS;
  }

  /** A rank as one thin line, or in full again. */
  private fold(rank: number): void {
    if (!this.folded.delete(rank)) this.folded.add(rank);
    this.retrack();
  }

  private showHosts(on: boolean): void {
    this.hosts = on;
    this.retrack();
  }

  private retrack(): void {
    this.scene.setTracks(tracksOf(this.source, 0, { ranks: this.ranks, deep: this.deep, hosts: this.hosts, lanes: this.lanes, folded: this.folded }));
    this.hostChip.setAttribute("aria-pressed", String(this.hosts));
    this.legend.replaceChildren(timelineLegend([{ model: this.page.model, ranks: this.ranks }], { hosts: this.hosts, deep: this.deep, lanes: this.lanes }));
    this.map.redraw();
  }

  /** What is lit: what was searched, else what is chosen, else the critical path. */
  private relight(): void {
    const mask = this.found ?? this.selectedMask() ?? this.scene.path?.mask ?? null;
    this.scene.setLit(mask ? [{ source: 0, mask }] : null);
  }

  private selectedMask(): Uint8Array | null {
    if (!this.selection) return null;
    const mask = new Uint8Array(this.page.model.count);
    for (const i of this.selection.events) mask[i] = 1;
    return mask;
  }

  private onSelection(selection: Selection | null): void {
    const { scene } = this;
    this.selection = selection;
    scene.selected = selection?.event !== null && selection?.event !== undefined ? { source: 0, event: selection.event } : null;
    scene.chosen = selection?.range ?? null;
    if (selection && selection.from !== "timeline") {
      if (selection.event !== null) this.page.cursor?.set(this.page.model.start[selection.event]);
      this.reveal(selection);
    }
    this.relight();
    this.detail.replaceChildren(...detailOf(this.page, selection, this.limits.low, () => this.zoomToSelected(), (by) => this.step(by)));
  }

  /** Bring what was chosen elsewhere into view. */
  private reveal(selection: Selection): void {
    const { scene } = this;
    if (selection.events.length && ![...selection.ranks].some((rank) => this.ranks.has(rank))) {
      this.ranks = new Set([...selection.ranks].slice(0, RANKS));
      this.retrack();
    }
    if (selection.range) {
      const [from, to] = selection.range, margin = Math.max((to - from) * 0.6, 1000);
      return scene.show(from - margin, to + margin);
    }
    if (selection.event !== null) return this.bring(selection.event);
    const visible = selection.events.some((i) => this.page.model.end[i] > scene.view[0] && this.page.model.start[i] < scene.view[1]);
    if (!visible) scene.fit();
  }

  /** Move to an event that is out of sight or too small to be seen. */
  private bring(event: number): void {
    const { scene } = this, [start, end] = scene.times(0, event), lane = this.page.run.timeline?.events.lane[event] ?? -1;
    if (!this.hosts && this.page.run.timeline?.lanes[lane]?.kind === "host") this.showHosts(true);
    const small = scene.width > 0 && scene.x(end) - scene.x(start) < 3, out = start < scene.view[0] || end > scene.view[1];
    if (small || out) scene.show((start + end) / 2 - Math.max((end - start) * 6, 2e4), (start + end) / 2 + Math.max((end - start) * 6, 2e4));
    const place = scene.place(0, event);
    if (place && (place.top < scene.scroll || place.bottom > scene.scroll + scene.height)) scene.box.scrollTop = place.top - scene.height / 2;
  }

  private zoomToSelected(): void {
    if (!this.scene.selected) return;
    const [start, end] = this.scene.times(0, this.scene.selected.event), margin = Math.max((end - start) * 2, 500);
    this.scene.show(start - margin, end + margin);
  }

  private choose(event: number): void {
    const { title, events } = companions(this.page.model, event);
    this.page.selections.choose(this.page.model, "timeline", title, events.includes(event) ? events : [event], { event });
  }

  /** Choose an event that may be out of sight. */
  private go(event: number): void {
    this.page.cursor?.set(this.page.model.start[event]);
    this.choose(event);
    this.bring(event);
  }

  private press(x: number, y: number): void {
    if (x > this.scene.left) this.page.cursor?.set(this.scene.time(x));
    if (y < AXIS) return;
    const hit = this.scene.hit(x, y), { page, scene } = this;
    if (hit?.kind === "wait" && hit.track.gaps) {
      const gaps = hit.track.gaps, from = gaps.start_ns[hit.index], to = from + gaps.duration_ns[hit.index];
      const events = eventsWithin(page.model, from, to, new Set([gaps.rank]));
      return page.selections.choose(page.model, "timeline", `${t("idle")}${t(": ")}${t(gaps.causes[gaps.cause[hit.index]])} · ${time((to - from) * 1e-9)}`, events, { range: [from, to] });
    }
    if (hit?.kind === "span" && hit.track.nest) {
      const { start, end } = hit.track.rows[0].spans;
      return page.selections.choose(page.model, "timeline", hit.track.nest.title(hit.index), hit.track.nest.events(hit.index), { range: [start[hit.index], end[hit.index]] });
    }
    if (hit?.kind === "label" && hit.track.kind === "heading") return this.fold(hit.track.rank);
    if (hit?.kind !== "event" && hit?.kind !== "many") return page.selections.clear();
    const row = hit.track.rows.find((one) => hit.kind === "many" && one.index.includes(hit.events[0]));
    const event = hit.kind === "event" ? hit.event : row ? longest(row, hit.events) : longestOf(page.model, hit.events);
    if (scene.selected?.event === event) page.selections.clear(); else this.choose(event);
  }

  private chooseRange(from: number, to: number): void {
    const events = eventsWithin(this.page.model, from, to, this.ranks);
    this.page.selections.choose(this.page.model, "timeline", stretchTitle(from, to, this.limits.low), events, { range: [from, to] });
  }

  /** To the next or previous event of the row; without one, to the first visible work of the device. */
  private step(by: number): void {
    const { scene, source } = this, event = scene.selected?.event;
    if (event === undefined) {
      const track = scene.tracks.find((one) => one.kind === "device") ?? scene.tracks.find((one) => one.rows.length);
      const row = track?.rows[0];
      if (row) this.go(row.index[Math.min(firstAfter(row, scene.view[0]), row.index.length - 1)]);
      return;
    }
    const lane = source.model.run.timeline?.events.lane[event] as number;
    const row = lanesOf(source, this.deep)[lane].find((one) => one.index.includes(event));
    const next = row?.index[row.index.indexOf(event) + by];
    if (next !== undefined) this.go(next);
  }
}
