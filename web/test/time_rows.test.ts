// Rows of the timeline: packing, finding, filling, and that painting them is bounded by the pixels.

import { describe, expect, it } from "vitest";
import { type Bar, type Name, barsOf } from "../src/views/time/paint";
import { type Row, type Spans, fill, firstAfter, masked, packed, row } from "../src/views/time/rows";
import { random } from "./time_fixture";

function spansOf(pairs: [number, number][]): Spans {
  return {
    start: Float64Array.from(pairs, (p) => p[0]), end: Float64Array.from(pairs, (p) => p[1]), colour: Uint8Array.from(pairs, (_, i) => i % 3),
    palette: ["#111111", "#222222", "#333333"], offset: 0, label: (i) => `span ${i}`,
  };
}

/** Spans that do not overlap, with gaps. */
function chain(seed: number, n: number, longest: number, gap: number): [number, number][] {
  const next = random(seed), pairs: [number, number][] = [];
  let at = 0;
  for (let i = 0; i < n; i++) {
    at += next() * gap;
    const end = at + 0.01 + next() * longest;
    pairs.push([at, end]);
    at = end;
  }
  return pairs;
}
const whole = (pairs: [number, number][]): Row => row(spansOf(pairs), Int32Array.from(pairs.keys()));

describe("packing", () => {
  it("puts calls under their caller", () => {
    const spans = spansOf([[0, 100], [0, 40], [5, 10], [50, 90], [120, 130]]);
    expect(packed(spans, [0, 1, 2, 3, 4]).map((r) => [...r.index])).toEqual([[0, 4], [1, 3], [2]]);
  });
  it("loses nothing and lets nothing overlap", () => {
    const next = random(7), pairs = Array.from({ length: 500 }, (): [number, number] => { const a = next() * 1000; return [a, a + next() * 60]; }).sort((a, b) => a[0] - b[0]);
    const rows = packed(spansOf(pairs), [...pairs.keys()]);
    expect(rows.flatMap((r) => [...r.index]).sort((a, b) => a - b)).toEqual([...pairs.keys()]);
    for (const { index } of rows) for (let k = 1; k < index.length; k++) expect(pairs[index[k]][0]).toBeGreaterThanOrEqual(pairs[index[k - 1]][1]);
  });
});

describe("finding", () => {
  const pairs = chain(3, 300, 5, 4), line = whole(pairs), next = random(5);
  it("finds the first span that ends after a time, as a search from the begin does", () => {
    for (let i = 0; i < 400; i++) {
      const time = next() * 1500 - 20, expected = pairs.findIndex((p) => p[1] > time), wanted = expected < 0 ? pairs.length : expected;
      expect(firstAfter(line, time)).toBe(wanted);
      expect(firstAfter(line, time, Math.max(0, wanted - 40))).toBe(wanted);
    }
  });
  it("fills a stretch by as much as the spans cover of it", () => {
    for (let i = 0; i < 200; i++) {
      const from = next() * 1200, to = from + next() * 50 + 0.1;
      const covered = pairs.reduce((sum, [a, b]) => sum + Math.max(0, Math.min(b, to) - Math.max(a, from)), 0);
      expect(fill(line, from, to)).toBeCloseTo(covered / (to - from), 9);
    }
  });
  it("keeps the spans of a mask only", () => {
    const mask = new Uint8Array(pairs.length);
    mask[3] = mask[200] = 1;
    expect([...(masked(line, mask) as Row).index]).toEqual([3, 200]);
    expect(masked(line, new Uint8Array(pairs.length))).toBeNull();
  });
});

describe("painting", () => {
  const view = (from: number, to: number) => ({ from, to, left: 100, right: 1100 });
  it("draws every span that is wide enough at its place, with its name", () => {
    const bars: Bar[] = [], names: Name[] = [];
    barsOf(whole([[0, 100], [150, 152], [300, 1000]]), view(0, 1000), 10, 20, bars, names);
    expect(bars.map((b) => [b.x, b.colour])).toEqual([[100, "#111111"], [250, "#222222"], [400, "#333333"]]);
    expect(bars[2].width).toBeCloseTo(699.4);
    expect(names.map((n) => n.text)).toEqual(["span 0", "span 2"]);
  });
  it("needs no more bars than twice the pixels for 200,000 spans", () => {
    const pairs = chain(11, 200_000, 2, 1), bars: Bar[] = [];
    barsOf(whole(pairs), view(0, pairs[pairs.length - 1][1]), 0, 10, bars, null);
    expect(bars.length).toBeLessThanOrEqual(2000);
    expect(bars.length).toBeGreaterThan(10);
  });
  it("makes columns as dense as they are full", () => {
    // Spans of one tenth of a pixel, every second of them: half full.
    const pairs = Array.from({ length: 10_000 }, (_, i): [number, number] => [i * 0.2, i * 0.2 + 0.1]), bars: Bar[] = [];
    const one = { ...spansOf(pairs), colour: new Uint8Array(pairs.length) };
    barsOf(row(one, Int32Array.from(pairs.keys())), { from: 0, to: 2000, left: 0, right: 2000 }, 0, 10, bars, null);
    expect(new Set(bars.map((b) => b.full))).toEqual(new Set([0.5]));
    expect(bars.reduce((sum, b) => sum + b.width, 0)).toBeGreaterThanOrEqual(1999);
  });
  it("takes the run's own offset from the times", () => {
    const bars: Bar[] = [];
    barsOf(row({ ...spansOf([[5000, 5500]]), offset: 5000 }, Int32Array.from([0])), view(0, 1000), 0, 10, bars, null);
    expect(bars[0].x).toBe(100);
  });
  it("draws nothing outside of the visible stretch", () => {
    const bars: Bar[] = [];
    barsOf(whole([[0, 10], [5000, 6000]]), view(100, 1000), 0, 10, bars, null);
    expect(bars).toEqual([]);
  });
});
