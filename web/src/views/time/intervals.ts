// Unions of stretches of time: lengths, overlaps and how much of each column of a picture they fill.

/** Stretches that do not overlap, in time order: begins and ends. */
export interface Cover { start: number[]; end: number[] }

/** The union of stretches in any order. */
export function union(stretches: readonly (readonly [number, number])[]): Cover {
  const cover: Cover = { start: [], end: [] };
  for (const [start, end] of [...stretches].sort((a, b) => a[0] - b[0])) {
    const last = cover.end.length - 1;
    if (end <= start) continue;
    if (last >= 0 && start <= cover.end[last]) cover.end[last] = Math.max(cover.end[last], end);
    else { cover.start.push(start); cover.end.push(end); }
  }
  return cover;
}

/** How long a union is. */
export const lengthOf = (cover: Cover): number => cover.start.reduce((sum, start, i) => sum + cover.end[i] - start, 0);

/** What is in `a` and not in `b`. */
export function minus(a: Cover, b: Cover): Cover {
  const rest: Cover = { start: [], end: [] };
  let k = 0;
  for (let i = 0; i < a.start.length; i++) {
    let from = a.start[i];
    while (k < b.start.length && b.end[k] <= from) k++;
    for (let j = k; j < b.start.length && b.start[j] < a.end[i]; j++) {
      if (b.start[j] > from) { rest.start.push(from); rest.end.push(b.start[j]); }
      from = Math.max(from, b.end[j]);
    }
    if (from < a.end[i]) { rest.start.push(from); rest.end.push(a.end[i]); }
  }
  return rest;
}

/** Part of each of `n` equal columns between two times that a union fills, 0 to 1. */
export function filled(cover: Cover, from: number, to: number, n: number): number[] {
  const part = new Array<number>(n).fill(0), width = (to - from) / n;
  if (!(width > 0)) return part;
  for (let i = 0; i < cover.start.length; i++) {
    const start = Math.max(from, cover.start[i]), end = Math.min(to, cover.end[i]);
    if (end <= start) continue;
    const first = Math.min(n - 1, Math.floor((start - from) / width)), last = Math.min(n - 1, Math.floor((end - from) / width));
    for (let c = first; c <= last; c++) {
      const low = Math.max(start, from + c * width), high = Math.min(end, from + (c + 1) * width);
      if (high > low) part[c] = Math.min(1, part[c] + (high - low) / width);
    }
  }
  return part;
}
