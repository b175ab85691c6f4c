// Pointer, wheel and keys of the timeline.

import type { Scene } from "./scene";
import { AXIS } from "./tracks";

export interface Acts {
  /** The pointer is over a point, or left (null). */
  hover(point: { x: number; y: number; clientX: number; clientY: number } | null): void;
  /** A point was pressed. */
  press(x: number, y: number): void;
  /** A stretch of time was chosen by dragging with Shift. */
  choose(from: number, to: number): void;
  /** To the next (1) or previous (-1) event of the row. */
  step(by: number): void;
  /** The selected event was asked for again: show it large. */
  enter(): void;
}

/** Listen to a scene's canvas. */
export function listen(scene: Scene, acts: Acts): void {
  const { canvas } = scene, drag = new Drag(scene, acts);
  canvas.addEventListener("wheel", (e) => wheel(scene, e), { passive: false });
  canvas.addEventListener("pointerdown", (e) => drag.down(e));
  canvas.addEventListener("pointermove", (e) => drag.move(e));
  canvas.addEventListener("pointerup", (e) => drag.up(e));
  canvas.addEventListener("pointercancel", (e) => drag.cancel(e));
  canvas.addEventListener("pointerleave", () => acts.hover(null));
  canvas.addEventListener("dblclick", () => scene.fit());
  canvas.addEventListener("keydown", (e) => key(scene, acts, e));
}

/** Scrolling zooms once the timeline was clicked (or with Ctrl), so that the page still scrolls. */
function wheel(scene: Scene, e: WheelEvent): void {
  if (document.activeElement !== scene.canvas && !e.ctrlKey && !e.metaKey) return;
  e.preventDefault();
  if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) return scene.pan((e.deltaX || e.deltaY) / 800);
  const lines = e.deltaMode === WheelEvent.DOM_DELTA_LINE ? 24 : 1;
  scene.zoom(Math.exp(Math.max(-60, Math.min(60, e.deltaY * lines)) / 180), e.offsetX);
}

/** Dragging moves; on the axis it zooms into the stretch, with Shift it chooses what is in it; two fingers zoom. */
class Drag {
  private readonly pointers = new Map<number, number>();
  private moved = false;
  private mode: "move" | "zoom" | "choose" = "move";

  constructor(private readonly scene: Scene, private readonly acts: Acts) {}

  down(e: PointerEvent): void {
    this.scene.canvas.focus({ preventScroll: true });
    this.scene.canvas.setPointerCapture(e.pointerId);
    this.pointers.set(e.pointerId, e.offsetX);
    this.moved = false;
    this.mode = e.shiftKey || this.scene.choosing ? "choose" : e.offsetY < AXIS && e.offsetX > this.scene.left ? "zoom" : "move";
    const at = this.scene.time(e.offsetX);
    this.scene.range = this.mode === "move" ? null : [at, at];
  }

  move(e: PointerEvent): void {
    const { scene } = this, before = this.pointers.get(e.pointerId);
    scene.pointer = Math.max(scene.left, e.offsetX);
    if (before === undefined) {
      scene.canvas.style.cursor = e.offsetY < AXIS && e.offsetX > scene.left ? "col-resize" : "";
      return this.acts.hover({ x: e.offsetX, y: e.offsetY, clientX: e.clientX, clientY: e.clientY });
    }
    if (Math.abs(e.offsetX - before) < 3 && !this.moved) return;
    this.moved = true;
    this.acts.hover(null);
    if (this.pointers.size === 2) return this.pinch(e);
    if (scene.range) { scene.range[1] = scene.time(e.offsetX); return scene.request(); }
    scene.canvas.classList.add("drag");
    this.pointers.set(e.pointerId, e.offsetX);
    scene.pan((before - e.offsetX) / (scene.width - scene.left));
  }

  private pinch(e: PointerEvent): void {
    const [a, b] = [...this.pointers.values()];
    this.scene.range = null;
    this.pointers.set(e.pointerId, e.offsetX);
    const [p, q] = [...this.pointers.values()];
    if (Math.abs(p - q) > 4) this.scene.zoom(Math.abs(a - b) / Math.abs(p - q), (p + q) / 2);
  }

  up(e: PointerEvent): void {
    const { scene, mode } = this, range = scene.range;
    this.cancel(e);
    if (!this.moved) return this.acts.press(e.offsetX, e.offsetY);
    if (!range) return;
    const [from, to] = [Math.min(...range), Math.max(...range)];
    if (mode === "choose") this.acts.choose(from, to); else scene.show(from, to);
  }

  cancel(e: PointerEvent): void {
    this.pointers.delete(e.pointerId);
    this.scene.canvas.classList.remove("drag");
    this.scene.range = null;
    this.scene.request();
  }
}

function key(scene: Scene, acts: Acts, e: KeyboardEvent): void {
  const does: Record<string, () => void> = {
    ArrowLeft: () => scene.pan(-0.15), ArrowRight: () => scene.pan(0.15),
    a: () => scene.pan(-0.15), d: () => scene.pan(0.15), w: () => scene.zoom(0.6, scene.pointer), s: () => scene.zoom(1 / 0.6, scene.pointer),
    ArrowUp: () => scene.box.scrollBy(0, -48), ArrowDown: () => scene.box.scrollBy(0, 48),
    "+": () => scene.zoom(0.6), "=": () => scene.zoom(0.6), "-": () => scene.zoom(1 / 0.6), "−": () => scene.zoom(1 / 0.6),
    "0": () => scene.fit(), Home: () => scene.fit(), "[": () => acts.step(-1), "]": () => acts.step(1), Enter: () => acts.enter(),
  };
  const act = does[e.key];
  const scrolls = e.key.startsWith("Arrow") && (e.key === "ArrowUp" || e.key === "ArrowDown") && scene.whole <= scene.height;
  if (!act || scrolls || e.ctrlKey || e.metaKey || e.altKey) return;
  e.preventDefault();
  act();
}
