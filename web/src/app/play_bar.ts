// The play head's bar at the foot of the page: play, step from kernel to kernel, drag through the step.

import type { Cursor } from "../core/cursor";
import { h } from "../core/dom";
import { count, time } from "../core/format";
import { t } from "../core/language";
import type { ReportPage } from "../core/page";
import { say } from "../core/patch";
import { instantAt, nextWork } from "../live/instant";
import { nowParts, shownAt } from "../live/now";
import { doing } from "../live/words";

/** How many times slower than it is the step is played. */
const PACES = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000];
/** What a step should take at first, in seconds. */
const WANTED_S = 20;

/** The bar; null where nothing happens in time. */
export function playBar(page: ReportPage): HTMLElement | null {
  const { cursor, model } = page;
  if (!cursor) return null;
  const player = new Player(cursor, paceOf(cursor));
  const step = (by: 1 | -1) => { player.stop(); const next = nextWork(model, cursor.at ?? cursor.low - 1, by); if (next !== null) cursor.set(next); };
  const button = (sign: string, name: string, act: () => void) => h("button", { type: "button", title: name, "aria-label": name, onclick: act }, sign);
  const play = button("▶", t("Play"), () => player.toggle());
  const slider = h("input", { type: "range", min: 0, max: 1, step: "any", "aria-label": t("Moment of the step"), oninput: () => { player.stop(); cursor.set(cursor.low + Number(slider.value) * (cursor.high - cursor.low)); } });
  const paces = h("select", { "aria-label": t("How slow the step is played"), onchange: () => { player.pace = Number(paces.value); } },
    PACES.map((pace) => h("option", { value: pace, selected: pace === player.pace }, `1:${count(pace)}`)));
  const whole = button("■", t("The whole step again"), () => { player.stop(); cursor.set(null); });
  const clock = h("b"), told = h("span", { class: "told" });
  const bar = h("aside", { id: "play", "aria-label": t("The moment that is looked at") },
    h("span", { class: "buttons" }, button("◂", `${t("Back to the kernel before")} (,)`, () => step(-1)), play, button("▸", `${t("On to the next kernel")} (.)`, () => step(1)), whole),
    slider, clock, paces, told);
  player.changed = () => {
    play.textContent = cursor.playing ? "❚❚" : "▶";
    play.setAttribute("aria-label", cursor.playing ? t("Pause") : t("Play"));
    play.title = `${cursor.playing ? t("Pause") : t("Play")} (k)`;
  };
  cursor.onWhile(bar, (at) => {
    const words = at === null ? t("the whole step: play it, or drag") : doing(page, instantAt(model, at));
    slider.value = String(at === null ? 0 : (at - cursor.low) / (cursor.high - cursor.low));
    const passed = time(((at ?? cursor.high) - cursor.low) * 1e-9);
    say(clock, passed);
    say(told, words);
    slider.setAttribute("aria-valuetext", `${passed}${t(", ")}${words}`);
    whole.disabled = at === null;
  });
  Object.assign(bar, { cursor }); // to be reached from the browser's console and from tests
  prepare(page);
  listen(bar, { ",": () => step(-1), ".": () => step(1), k: () => player.toggle() });
  return bar;
}

/** What the first moment needs is worked out while nobody waits for it. */
function prepare(page: ReportPage): void {
  const { cursor, model } = page, first = cursor && nextWork(model, cursor.low - 1, 1);
  const work = () => { const instant = first && instantAt(model, first); if (instant) { shownAt(page, instant); nowParts(page, instant); } };
  if (typeof requestIdleCallback === "function") requestIdleCallback(work);
}

/** Keys that hold for the whole page, but where one types or chooses. */
function listen(bar: HTMLElement, keys: Record<string, () => void>): void {
  const act = (e: KeyboardEvent) => {
    if (!bar.isConnected) return removeEventListener("keydown", act);
    const typing = e.target instanceof Element && e.target.closest("input:not([type=range]), select, textarea");
    const does = keys[e.key];
    if (!does || typing || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    does();
  };
  addEventListener("keydown", act);
}

/** The pace at which the step takes about as long as one likes to look at. */
function paceOf(cursor: Cursor): number {
  const wanted = WANTED_S / ((cursor.high - cursor.low) * 1e-9);
  return PACES.reduce((best, pace) => (Math.abs(Math.log(pace / wanted)) < Math.abs(Math.log(best / wanted)) ? pace : best));
}

/** Moves the cursor by the clock. */
class Player {
  changed: () => void = () => undefined;
  private last = 0;

  constructor(private readonly cursor: Cursor, public pace: number) {}

  toggle(): void {
    if (this.cursor.playing) return this.stop();
    const { cursor } = this;
    if (cursor.at === null || cursor.at >= cursor.high) cursor.set(cursor.low);
    cursor.playing = true;
    this.last = performance.now();
    this.changed();
    requestAnimationFrame((now) => this.frame(now));
  }

  stop(): void {
    this.cursor.playing = false;
    this.changed();
  }

  private frame(now: number): void {
    const { cursor } = this;
    if (!cursor.playing) return;
    cursor.set((cursor.at ?? cursor.low) + (Math.max(0, now - this.last) * 1e6) / this.pace);
    this.last = now;
    if (cursor.at !== null && cursor.at >= cursor.high) return this.stop();
    requestAnimationFrame((next) => this.frame(next));
  }
}
