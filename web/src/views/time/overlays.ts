// Over the timeline's rows: the critical path, the selected event, arrows from launches to their work.

import { type PathLine } from "./path_line";
import { firstAfter } from "./rows";
import type { Scene } from "./scene";
import { type Track } from "./tracks";
import { linksOf } from "./links";

/** A line along the lanes that set the step's length, with a riser wherever the path changes lanes. */
export function drawPath(c: CanvasRenderingContext2D, scene: Scene, path: PathLine): void {
  const offset = scene.sources[path.source].offset, tracks = new Map<number, Track>();
  for (const track of scene.tracks) if (track.source === path.source && track.lane >= 0) tracks.set(track.lane, track);
  const [from, to] = [scene.view[0] + offset, scene.view[1] + offset];
  const lines: [number, number, number][] = [];
  for (let s = 0; s < path.start.length; s++) {
    if (path.end[s] < from || path.start[s] > to) continue;
    const track = tracks.get(path.lane[s]);
    if (track) lines.push([scene.x(path.start[s] - offset), scene.x(path.end[s] - offset), levelOf(track, (path.start[s] + path.end[s]) / 2)]);
  }
  for (const [width, colour] of [[5, scene.colours.paper], [2.5, scene.colours.ink]] as [number, string][]) {
    c.strokeStyle = colour;
    c.lineWidth = width;
    c.lineJoin = "round";
    c.beginPath();
    let last: [number, number] | null = null;
    for (const [x0, x1, y] of lines) {
      if (last && x0 - last[0] < 2) c.lineTo(x0, y); else c.moveTo(x0, y);
      c.lineTo(x1, y);
      last = [x1, y];
    }
    c.stroke();
  }
}

/** Bottom of the deepest shown call of a lane at a moment (on the run's own clock). */
function levelOf(track: Track, time: number): number {
  for (let r = track.rows.length - 1; r > 0; r--) {
    const row = track.rows[r], k = firstAfter(row, time);
    if (k < row.index.length && row.spans.start[row.index[k]] <= time) return track.y + (r + 1) * track.rowHeight - 3;
  }
  return track.y + track.rowHeight - 3;
}

/** A frame round the selected event. */
export function drawSelected(c: CanvasRenderingContext2D, scene: Scene): void {
  const { selected } = scene;
  const place = selected && scene.place(selected.source, selected.event);
  if (!selected || !place) return;
  const [start, end] = scene.times(selected.source, selected.event);
  const x0 = Math.max(scene.left, scene.x(start)), x1 = Math.min(scene.width, scene.x(end));
  if (x1 < scene.left || x0 > scene.width) return;
  c.strokeStyle = scene.colours.ink;
  c.lineWidth = 2;
  c.strokeRect(x0 - 1, place.top - 1, Math.max(3, x1 - x0 + 1), place.bottom - place.top);
}

/** Arrows from the calls that launched work to that work. */
export function drawArrows(c: CanvasRenderingContext2D, scene: Scene): void {
  const { selected } = scene;
  if (!selected) return;
  c.strokeStyle = scene.colours.ink;
  c.fillStyle = scene.colours.ink;
  c.lineWidth = 1.3;
  const links = linksOf(scene.model(selected.source), selected.event);
  c.globalAlpha = links.length > 3 ? 0.55 : 1;
  for (const [launch, work] of links) {
    const a = scene.place(selected.source, launch), b = scene.place(selected.source, work), foot = a ? a.bottom - 2 : laneFoot(scene, selected.source, launch);
    if (!b || foot === null) continue;
    const [start] = scene.times(selected.source, launch), [to] = scene.times(selected.source, work);
    const x0 = scene.x(start), x1 = scene.x(to), y0 = foot, y1 = b.top + (b.bottom - b.top) / 2, middle = (y0 + b.top) / 2;
    c.beginPath();
    c.moveTo(x0, y0);
    c.bezierCurveTo(x0, middle, x1 - 12, y1, x1 - 1, y1);
    c.stroke();
    c.beginPath();
    c.moveTo(x1, y1); c.lineTo(x1 - 7, y1 - 4); c.lineTo(x1 - 7, y1 + 4);
    c.fill();
  }
  c.globalAlpha = 1;
}

/** Bottom of an event's lane, for one that is folded away; null where its lane is not shown. */
function laneFoot(scene: Scene, source: number, event: number): number | null {
  const lane = scene.model(source).run.timeline?.events.lane[event];
  const track = scene.tracks.find((one) => one.source === source && one.lane === lane);
  return track ? track.y + track.height - 2 : null;
}
