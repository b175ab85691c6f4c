// Memory block by block, ready to draw: addresses put close together, what is there at a moment, holes.

import type { MemoryBlockColumns } from "../../core/document";

/** Blocks with their place in a picture in which segments lie one above the other. */
export interface Placed {
  columns: MemoryBlockColumns;
  /** Begin of each segment, counted without the gaps between segments; and of them all. */
  starts: number[];
  total: number;
  /** Of each block: its place counted so, its segment, and its life within the stretch. */
  place: Float64Array;
  segment: Int32Array;
  born: Float64Array;
  died: Float64Array;
}

export function placed(columns: MemoryBlockColumns): Placed {
  const starts: number[] = [], { segments, address } = columns;
  let total = 0;
  for (const [, nbytes] of segments) { starts.push(total); total += nbytes; }
  const segment = Int32Array.from(address, (at) => segmentOf(segments, at));
  return {
    columns, starts, total, segment,
    place: Float64Array.from(address, (at, i) => (starts[segment[i] as number] as number) + at - (segments[segment[i] as number] as [number, number])[0]),
    born: Float64Array.from(columns.born_ns, (ns) => (ns < 0 ? columns.begin_ns : ns)),
    died: Float64Array.from(columns.died_ns, (ns) => (ns < 0 ? columns.end_ns : ns)),
  };
}

/** The last segment that begins at or before an address. */
function segmentOf(segments: readonly [number, number][], at: number): number {
  let low = 0, high = segments.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((segments[middle] as [number, number])[0] <= at) low = middle + 1; else high = middle;
  }
  return Math.max(0, low - 1);
}

/** Whether a block is there at a moment; at the end what outlives it is. */
export const isThere = (p: Placed, i: number, at: number): boolean =>
  (p.born[i] as number) <= at && ((p.died[i] as number) > at || ((p.columns.died_ns[i] as number) < 0 && at <= p.columns.end_ns));

/** Memory at a moment: what is held, what is free beside blocks in use, and in segments without any. */
export interface Held { bytes: number; blocks: number; holes: number; largest: number; cached: number; segments: number }

export function heldAt(p: Placed, at: number): Held {
  const { segments, nbytes } = p.columns, own: [number, number][][] = segments.map(() => []);
  const held: Held = { bytes: 0, blocks: 0, holes: 0, largest: 0, cached: 0, segments: 0 };
  for (let i = 0; i < nbytes.length; i++) {
    if (!isThere(p, i, at)) continue;
    held.bytes += nbytes[i] as number;
    held.blocks += 1;
    own[p.segment[i] as number]?.push([p.place[i] as number, nbytes[i] as number]);
  }
  own.forEach((blocks, s) => {
    const size = (segments[s] as [number, number])[1], begin = p.starts[s] as number;
    if (!blocks.length) { held.cached += size; return; }
    held.segments += 1;
    let end = begin;
    for (const [place, bytes] of [...blocks.sort((a, b) => a[0] - b[0]), [begin + size, 0] as [number, number]]) {
      const hole = place - end;
      if (hole > 0) { held.holes += hole; held.largest = Math.max(held.largest, hole); }
      end = Math.max(end, place + bytes);
    }
  });
  return held;
}

/** The block at a place and a moment; -1 for none. */
export function blockAt(p: Placed, place: number, at: number): number {
  for (let i = 0; i < p.place.length; i++) {
    const begin = p.place[i] as number;
    if (begin <= place && place < begin + (p.columns.nbytes[i] as number) && isThere(p, i, at)) return i;
  }
  return -1;
}
