// The whole run as a strip over the timeline: where work is, and which part is shown below.

import { css, h } from "../../core/dom";
import { onResize } from "../../core/drawing";
import { onTheme } from "../../core/theme";
import { fill } from "./rows";
import type { Scene } from "./scene";

const HEIGHT = 40, EDGE = 6;

/** The strip of a scene; drag its window, its edges, or a new one. */
export function minimap(scene: Scene): { element: HTMLElement; redraw: () => void } {
  const canvas = h("canvas", { class: "tl-map", "aria-hidden": "true" }), ground = document.createElement("canvas");
  let width = 0, pending = 0, stale = true;
  const [low, high] = scene.limits, length = high - low;
  const x = (time: number) => scene.left + ((time - low) / length) * (width - scene.left);
  const time = (px: number) => low + ((px - scene.left) / (width - scene.left)) * length;
  const draw = () => {
    pending = 0;
    const room = canvas.parentElement?.clientWidth ?? 0, scale = devicePixelRatio || 1;
    if (!room) return;
    if (scene.width !== room) scene.draw(); // the strip begins where the lanes do
    if (!scene.width) return;
    if (room !== width || stale) {
      width = room;
      for (const one of [canvas, ground]) { one.width = Math.round(width * scale); one.height = Math.round(HEIGHT * scale); }
      Object.assign(canvas.style, { width: `${width}px`, height: `${HEIGHT}px` });
      stale = false;
      paintGround(ground, scene, width, scale);
    }
    const c = canvas.getContext("2d");
    if (!c) return;
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.clearRect(0, 0, canvas.width, canvas.height);
    c.drawImage(ground, 0, 0);
    c.setTransform(scale, 0, 0, scale, 0, 0);
    const a = Math.max(scene.left, x(scene.view[0])), b = Math.min(width, x(scene.view[1]));
    c.fillStyle = scene.colours.paper;
    c.globalAlpha = 0.66;
    c.fillRect(scene.left, 0, a - scene.left, HEIGHT);
    c.fillRect(b, 0, width - b, HEIGHT);
    c.globalAlpha = 1;
    c.strokeStyle = scene.colours.accent;
    c.lineWidth = 1.5;
    c.strokeRect(a + 0.75, 0.75, Math.max(2, b - a - 1.5), HEIGHT - 1.5);
  };
  const request = () => { pending ||= requestAnimationFrame(draw); };
  const redraw = () => { stale = true; request(); };
  scene.watch(request);
  const end = onTheme(() => (canvas.isConnected ? redraw() : end()));
  listen(canvas, scene, x, time);
  const element = h("div", { class: "tl-map-box" }, canvas);
  onResize(element, () => { stale = true; draw(); });
  return { element, redraw };
}

/** Device work of each rank as dense as it is, the host's above it in a thin line. */
function paintGround(canvas: HTMLCanvasElement, scene: Scene, width: number, scale: number): void {
  const c = canvas.getContext("2d");
  if (!c) return;
  c.setTransform(scale, 0, 0, scale, 0, 0);
  c.clearRect(0, 0, width, HEIGHT);
  const lines = new Map<string, { kind: string; tracks: Scene["tracks"] }>();
  for (const track of scene.tracks) {
    if (track.kind !== "host" && track.kind !== "device") continue;
    const key = `${track.source}/${track.rank}/${track.kind}`, line = lines.get(key) ?? { kind: track.kind, tracks: [] };
    line.tracks.push(track);
    lines.set(key, line);
  }
  const weight = (kind: string) => (kind === "host" ? 1 : 3), all = [...lines.values()].reduce((sum, line) => sum + weight(line.kind), 0);
  const nsPer = (scene.limits[1] - scene.limits[0]) / Math.max(1, width - scene.left);
  const host = css("--faint"), device = css("--accent");
  let y = 0;
  for (const line of lines.values()) {
    const tall = (HEIGHT * weight(line.kind)) / all;
    c.fillStyle = line.kind === "host" ? host : device;
    for (let px = 0; px < width - scene.left; px++) {
      const from = scene.limits[0] + px * nsPer;
      let most = 0;
      for (const track of line.tracks) {
        const rows = line.kind === "host" ? track.rows.slice(0, 1) : track.rows;
        for (const row of rows) most = Math.max(most, fill(row, from + row.spans.offset, from + nsPer + row.spans.offset));
      }
      if (most <= 0) continue;
      c.globalAlpha = 0.15 + 0.75 * most;
      c.fillRect(scene.left + px, y + 0.5, 1, Math.max(1, tall - 1));
    }
    y += tall;
  }
}

function listen(canvas: HTMLCanvasElement, scene: Scene, x: (time: number) => number, time: (px: number) => number): void {
  let act: ((px: number) => void) | null = null;
  const grip = (px: number): "low" | "high" | "inside" | "outside" => {
    const a = x(scene.view[0]), b = x(scene.view[1]);
    if (Math.abs(px - a) < EDGE && b - a > EDGE) return "low";
    if (Math.abs(px - b) < EDGE && b - a > EDGE) return "high";
    return px > a && px < b && b - a < x(scene.limits[1]) - x(scene.limits[0]) - 2 ? "inside" : "outside";
  };
  canvas.addEventListener("pointerdown", (e) => {
    canvas.setPointerCapture(e.pointerId);
    const held = grip(e.offsetX), begin = time(e.offsetX), [from, to] = scene.view;
    if (held === "inside") act = (px) => scene.show(from + time(px) - begin, to + time(px) - begin);
    else if (held === "low") act = (px) => scene.show(Math.min(time(px), to - 20), to);
    else if (held === "high") act = (px) => scene.show(from, Math.max(time(px), from + 20));
    else act = (px) => { if (Math.abs(px - e.offsetX) > 3) scene.show(Math.min(begin, time(px)), Math.max(begin, time(px))); };
  });
  canvas.addEventListener("pointermove", (e) => {
    if (act) return act(e.offsetX);
    const held = grip(e.offsetX);
    canvas.style.cursor = held === "inside" ? "grab" : held === "outside" ? "crosshair" : "ew-resize";
  });
  const stop = () => { act = null; };
  canvas.addEventListener("pointerup", stop);
  canvas.addEventListener("pointercancel", stop);
}
