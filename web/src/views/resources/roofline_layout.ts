// Geometry of the roofline: logarithmic scales, slopes, roofs, where labels can stand.

export interface Scales {
  x(value: number): number;
  y(value: number): number;
  /** Decades at the ends. */
  x0: number; x1: number; y0: number; y1: number;
  left: number; right: number; top: number; bottom: number;
}

const MOST_DECADES = 6;

/** Scales that hold the values and the ridge of the main roof. */
export function scalesOf(xs: number[], ys: number[], ridge: { x: number; y: number }, width: number, height: number, margins = { left: 66, right: 14, top: 18, bottom: 44 }): Scales {
  const x0 = Math.log10(Math.min(...xs, ridge.x / 20)) - 0.15, x1 = Math.log10(Math.max(...xs, ridge.x * 12)) + 0.15;
  const y1 = Math.log10(Math.max(...ys, ridge.y)) + 0.28;
  const y0 = Math.max(Math.min(Math.log10(Math.min(...ys)) - 0.25, Math.log10(ridge.y) - 2.5), y1 - MOST_DECADES);
  const left = margins.left, right = width - margins.right, top = margins.top, bottom = height - margins.bottom;
  return {
    x: (v) => left + ((Math.log10(v) - x0) / (x1 - x0)) * (right - left),
    y: (v) => bottom - ((Math.max(Math.log10(Math.max(v, 1e-300)), y0) - y0) / (y1 - y0)) * (bottom - top),
    x0, x1, y0, y1, left, right, top, bottom,
  };
}

/** The part of a slope (rate = bandwidth x intensity) inside the plot, up to a roof; null if none is. */
export function slope(s: Scales, bandwidth: number, roof: number): { x1: number; y1: number; x2: number; y2: number } | null {
  const low = Math.max(10 ** s.x0, 10 ** s.y0 / bandwidth), high = Math.min(10 ** s.x1, Math.min(roof, 10 ** s.y1) / bandwidth);
  if (!(high > low)) return null;
  return { x1: s.x(low), y1: s.y(low * bandwidth), x2: s.x(high), y2: s.y(high * bandwidth) };
}

/** Degrees of a line on the screen. */
export const tilt = (line: { x1: number; y1: number; x2: number; y2: number }): number => (Math.atan2(line.y2 - line.y1, line.x2 - line.x1) * 180) / Math.PI;

export interface Box { x: number; y: number; width: number; height: number }

export const overlaps = (a: Box, b: Box): boolean => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;

/** Keep the boxes that do not cover one kept before, in the order given. */
export function keepClear(boxes: Box[], taken: Box[] = []): boolean[] {
  const kept = [...taken];
  return boxes.map((box) => {
    if (kept.some((other) => overlaps(box, other))) return false;
    kept.push(box);
    return true;
  });
}

/** Radius of a bubble whose area stands for its time. */
export const radius = (time_s: number, longest_s: number, largest = 22, least = 3): number => Math.max(least, largest * Math.sqrt(time_s / longest_s));
