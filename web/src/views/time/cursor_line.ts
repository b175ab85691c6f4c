// The play head over the timeline: a line that can be dragged by its head, and that stays in sight while it plays.

import type { Cursor } from "../../core/cursor";
import { h } from "../../core/dom";
import type { Scene } from "./scene";

/** Where a moving line may stand at most, as a share of what is shown, before the view follows. */
const FOLLOW_AT = 0.92;

/** The scene's box with the line over it. */
export function withCursor(scene: Scene, cursor: Cursor | null): HTMLElement {
  const stage = h("div", { class: "tl-stage" }, scene.box);
  if (!cursor) return stage;
  const line = h("div", { class: "tl-cursor", "aria-hidden": "true" }, h("i"));
  stage.append(line);
  const place = () => {
    const { at } = cursor, x = at === null ? -1 : scene.x(at);
    line.hidden = at === null || x < scene.left || x > scene.width;
    line.style.transform = `translateX(${x}px)`;
  };
  cursor.onWhile(stage, (at) => {
    if (at !== null && cursor.playing) follow(scene, at);
    place();
  });
  scene.watch(place);
  scene.drawn = place;
  line.addEventListener("pointerdown", (e) => { e.preventDefault(); line.setPointerCapture(e.pointerId); });
  line.addEventListener("pointermove", (e) => { if (line.hasPointerCapture(e.pointerId)) cursor.set(scene.time(e.clientX - stage.getBoundingClientRect().left)); });
  return stage;
}

function follow(scene: Scene, at: number): void {
  const [from, to] = scene.view;
  if (at < from || at > from + (to - from) * FOLLOW_AT) scene.show(at - (to - from) * (1 - FOLLOW_AT), at + (to - from) * FOLLOW_AT);
}
