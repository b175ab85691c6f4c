// What ranks lose: told in each rank's heading, drawn as lanes also where a rank is folded.

import { describe, expect, it } from "vitest";
import type { Lane, Pipeline } from "../src/core/document";
import { Model } from "../src/core/model";
import { bubblesOf, lossesOf } from "../src/views/time/losses";
import { tracksOf } from "../src/views/time/tracks";
import { runOf } from "./time_fixture";

const LANES: Lane[] = [0, 1].flatMap((rank): Lane[] => [{ name: "host main", kind: "host", rank, device: -1 }, { name: "stream 7", kind: "stream", rank, device: rank }]);
const stage = (rank: number, blocks: [number, number][]) => ({ rank, busy_s: 0, bubble_s: 0, blocks: blocks.map(([from, to], number) => ({ phase: "forward" as const, number, start_ns: from * 1000, end_ns: to * 1000 })) });
const PIPELINE = { start_ns: 0, end_ns: 100_000, stages: [stage(0, [[0, 40]]), stage(1, [[40, 80]])] } as unknown as Pipeline;

const run = runOf([{ at: 0, long: 40, name: "k", kind: "kernel", lane: 1 }, { at: 10, long: 30, name: "ncclRecv", kind: "communication", lane: 3 }, { at: 40, long: 40, name: "k", kind: "kernel", lane: 3 }], {
  lanes: LANES, run: { pipeline: PIPELINE, collective_waits: { start_ns: [10_000, 10_000], wait_ns: [25_000, 15_000], lane: [3, 3], last: [0, 0] } },
  gaps: [{ rank: 1, start_ns: [0], duration_ns: [10_000], cause: [0], what: [0], causes: ["unknown"], names: [""], left_out: 0, left_out_ns: 0 }],
});

describe("losses of ranks", () => {
  it("are a pipeline's bubbles: what lies between a stage's blocks within the schedule", () => {
    expect(bubblesOf(run, 0)).toMatchObject({ start_ns: [40_000], duration_ns: [60_000], causes: ["bubble"] });
    expect(bubblesOf(run, 1)).toMatchObject({ start_ns: [0, 80_000], duration_ns: [40_000, 20_000] });
    expect(bubblesOf(runOf([]), 0)).toBeNull();
  });
  it("are summed in each rank's heading", () => {
    const model = new Model(run, 0);
    expect(lossesOf(model, 0)).toEqual(["bubble 60.0 µs"]);
    expect(lossesOf(model, 1)).toEqual(["waits for others 25.0 µs", "bubble 60.0 µs", "idle 10.0 µs"]);
  });
  it("stand on the one axis of all ranks, folded ones too", () => {
    const tracks = tracksOf({ model: new Model(run, 0), offset: 0 }, 0, { ranks: new Set([0, 1]), deep: false, hosts: false, lanes: false, folded: new Set([1]) });
    const of = (rank: number) => tracks.filter((track) => track.rank === rank).map((track) => [track.kind, track.rows.length, track.held?.index.length ?? 0]);
    expect(of(0)).toEqual([["heading", 0, 0], ["device", 1, 0], ["waits", 1, 0]]);
    expect(of(1)).toEqual([["heading", 0, 0], ["device", 1, 2], ["waits", 1, 0], ["waits", 1, 0]]);
  });
});
