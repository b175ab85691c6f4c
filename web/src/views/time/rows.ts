// The timeline's rows: events packed so that none overlap in a row, so that any stretch is found at once.

/** Things with a begin and an end, drawn in one colour each; times on the drawing's clock minus `offset`. */
export interface Spans {
  start: Float64Array;
  end: Float64Array;
  /** Colour of each: index into `palette`. */
  colour: Uint8Array;
  palette: readonly string[];
  /** What is written on each. */
  label(index: number): string;
  /** Taken from their times to draw them. */
  offset: number;
}

/** Indexes of spans that do not overlap, by time, with the time that those before each fill. */
export interface Row { spans: Spans; index: Int32Array; before: Float64Array }

/** Make a row of spans that do not overlap, sorted by time. */
export function row(spans: Spans, index: Int32Array): Row {
  const before = new Float64Array(index.length + 1);
  for (let k = 0; k < index.length; k++) before[k + 1] = before[k] + spans.end[index[k]] - spans.start[index[k]];
  return { spans, index, before };
}

/** Pack spans (sorted by begin, longer ones first) into the fewest rows in which none overlap; calls lie under their caller. */
export function packed(spans: Spans, sorted: readonly number[]): Row[] {
  const rows: number[][] = [], free: number[] = [];
  for (const i of sorted) {
    let r = 0;
    while (r < rows.length && free[r] > spans.start[i]) r++;
    if (r === rows.length) { rows.push([]); free.push(0); }
    rows[r].push(i);
    free[r] = spans.end[i];
  }
  return rows.map((indexes) => row(spans, Int32Array.from(indexes)));
}

/** Place in a row of the first span that ends after `time` (on the spans' own clock), from `k` on. */
export function firstAfter(row: Row, time: number, k = 0): number {
  const { index, spans: { end } } = row;
  // Mostly the next ones: look there first, in steps that double, then halve.
  let step = 1, low = k;
  while (low < index.length && end[index[low]] <= time) { k = low + 1; low += step; step *= 2; }
  let high = Math.min(low, index.length);
  while (k < high) {
    const middle = (k + high) >> 1;
    if (end[index[middle]] > time) high = middle; else k = middle + 1;
  }
  return k;
}

/** Time that a row's spans fill before `time`; `k` is `firstAfter(row, time)`. */
export function filledUntil(row: Row, time: number, k: number): number {
  if (k >= row.index.length) return row.before[row.index.length];
  return row.before[k] + Math.max(0, time - row.spans.start[row.index[k]]);
}

/** Part of a stretch of time (on the spans' own clock) that a row fills, 0 to 1. */
export function fill(row: Row, from: number, to: number): number {
  if (!(to > from)) return 0;
  const a = firstAfter(row, from), b = firstAfter(row, to, a);
  return (filledUntil(row, to, b) - filledUntil(row, from, a)) / (to - from);
}

/** The spans of a row for which a mask is set. */
export function masked(from: Row, mask: Uint8Array): Row | null {
  const kept: number[] = [];
  for (let k = 0; k < from.index.length; k++) if (mask[from.index[k]]) kept.push(from.index[k]);
  return kept.length ? row(from.spans, Int32Array.from(kept)) : null;
}
