// The panels of the view "Time": what they show, that nothing is shown without data, and that choosing links them.

import { beforeAll, describe, expect, it } from "vitest";
import { setLanguage } from "../src/core/language";
import { BRACKETED } from "./texts";
import { view } from "../src/views/time";
import { classesPanel, familiesPanel, phasesPanel } from "../src/views/time/breakdowns";
import { comparisonPanel } from "../src/views/time/comparison";
import { copiesPanel } from "../src/views/time/copies";
import { describe as facts } from "../src/views/time/describe";
import { hostPanel } from "../src/views/time/host";
import { idlePanel } from "../src/views/time/idle";
import { pairPanel } from "../src/views/time/pair";
import { pathPanel } from "../src/views/time/path";
import { ranksPanel } from "../src/views/time/ranks";
import { Scene } from "../src/views/time/scene";
import { stripPanel } from "../src/views/time/strip";
import { timelinePanel } from "../src/views/time/timeline";
import { tracksOf } from "../src/views/time/tracks";
import { FLOW_LANES, flow, pageOf, runOf } from "./time_fixture";

beforeAll(() => {
  globalThis.ResizeObserver ??= class { observe() {} unobserve() {} disconnect() {} } as unknown as typeof ResizeObserver;
  HTMLCanvasElement.prototype.getContext = () => null;
  setLanguage("en");
});

const share = (label: string, time_s: number) => ({ label, time_s, count: 2, flops: 0, moved_bytes: 0, limiter: "", best_s: null, family: "" });
const gaps = (rank: number) => ({ rank, start_ns: [50_000], duration_ns: [10_000], cause: [0], what: [0], causes: ["host dispatching", "unknown"], names: ["aten::mm"], left_out: 0, left_out_ns: 0 });
const spot = { cause: "host dispatching", what: "aten::mm", within: "", where: "train.py(3): step", time_s: 1e-5, count: 1, start_ns: 50_000, longest_s: 1e-5 };
const path = { start_ns: 0, end_ns: 100_000, steps: 1, time_s: { kernel: 8e-5, python: 2e-5 }, gain_s: { kernel: 7e-5 }, shares: [{ kind: "kernel", name: "gemm", time_s: 3e-5, count: 1, start_ns: 10_000, longest_s: 3e-5 }],
  segment_start_ns: [0, 20_000], segment_kind: [5, 0], segment_name: [0, 1], segment_lane: [0, 1], names: ["", "gemm"] };
const full = () => runOf(flow(), { lanes: FLOW_LANES, steps: [[0, 100, 0]], gaps: [gaps(0)], analysis: {
  classes: [share("compute-bound", 6e-5), share("idle: host dispatching", 1e-5)], kinds: [share("kernel", 6e-5), share("memcpy", 2.5e-5)], phases: [share("forward", 3e-5), share("backward", 3e-5)],
  idle_spots: [spot], critical_path: path,
  copies: [{ direction: "host to device", memory: "pageable", count: 1, time_s: 1e-5, exposed_s: 1e-5, total_bytes: null, median_bytes: null, largest_bytes: null, rate_bytes_per_s: null, link_bytes_per_s: null, longest_ns: 0 }],
} });
const text = (element: HTMLElement | null): string => element?.textContent ?? "";

describe("breakdowns", () => {
  it("tell each part with its share of the step", () => {
    const panel = classesPanel(pageOf([full()]));
    expect(text(panel)).toContain("60.0 µs60.0 %");
    expect(panel?.querySelectorAll(".tm-stack i.tm-empty").length).toBe(1);
  });
  it("choose what belongs to a part, and light the parts of what is chosen", () => {
    const page = pageOf([full()]), families = familiesPanel(page) as HTMLElement, phases = phasesPanel(page) as HTMLElement;
    (phases.querySelector(".tm-parts li") as HTMLElement).click();
    expect(page.selections.current?.title).toBe("forward");
    expect(page.selections.current?.events.map((i) => page.run.timeline!.names[page.run.timeline!.events.name[i]])).toEqual(["gemm"]);
    const rows = [...families.querySelectorAll(".tm-parts li")];
    expect(rows.map((row) => row.classList.contains("unlit"))).toEqual([false, true]);
    page.selections.clear();
    expect(families.querySelectorAll(".unlit").length).toBe(0);
  });
  it("leave the step of a recording without device work to the host's panel", () => {
    const run = runOf([{ at: 0, long: 5, name: "aten::mm", kind: "operator", lane: 0, op: 0 }], { analysis: { classes: [share("idle: unknown", 1)], host: [share("aten::mm", 5e-6)] } });
    expect(classesPanel(pageOf([run]))).toBeNull();
    expect(text(hostPanel(pageOf([run])))).toContain("mm5.00 µs");
  });
});

describe("the strip", () => {
  it("tells how much of each leg is hidden", () => expect(text(stripPanel(pageOf([full()])))).toContain("communication20.0 µs50.0 % hidden"));
});

describe("tables", () => {
  it("show a moment in the timeline", () => {
    const page = pageOf([full()]), panel = idlePanel(page) as HTMLElement;
    expect(text(panel)).toContain("mm · train.py(3): step");
    (panel.querySelector("tbody tr") as HTMLElement).click();
    expect(page.selections.current?.range).toEqual([50_000, 60_000]);
    expect(page.shown).toEqual(["timeline"]);
  });
  it("say that what is missing is not available", () => expect(text(copiesPanel(pageOf([full()]))).match(/not available/g)?.length).toBe(3));
  it("tell the path's parts", () => expect(text(pathPanel(pageOf([full()])))).toMatch(/kernel80.0 µs80.0 %70.0 µs/));
});

describe("the timeline", () => {
  it("describes the chosen event, and several", () => {
    const page = pageOf([full()]), panel = timelinePanel(page) as HTMLElement, tl = page.run.timeline!;
    const gemm = tl.events.name.findIndex((n) => tl.names[n] === "gemm");
    expect(text(panel.querySelector(".detail"))).toContain("Nothing selected");
    page.selections.choose(page.model, "elsewhere", "gemm", [gemm], { event: gemm });
    expect(text(panel.querySelector(".detail"))).toMatch(/gemm.*duration30.0 µs.*from call to work4.00 µs/);
    page.selections.choose(page.model, "elsewhere", "all", [gemm, gemm + 1]);
    expect(text(panel.querySelector(".detail"))).toContain("2 events");
  });
  it("searches by name and chooses what it found", async () => {
    const page = pageOf([full()]), panel = timelinePanel(page) as HTMLElement, field = panel.querySelector("input[type=search]") as HTMLInputElement;
    field.value = "memcpy";
    field.dispatchEvent(new Event("input"));
    await new Promise((done) => setTimeout(done, 160));
    expect(text(panel.querySelector(".told"))).toBe("2 events, 25.0 µs on the device");
    (panel.querySelector(".search button") as HTMLElement).click();
    expect(page.selections.current?.events.length).toBe(2);
  });
  it("finds what is under a point", () => {
    const page = pageOf([full()]), source = { model: page.model, offset: 0 }, scene = new Scene([source], [0, 100_000], [0, 100_000], 0, "");
    scene.setTracks(tracksOf(source, 0, { ranks: new Set([0]), deep: false, hosts: true, lanes: true }));
    scene.width = 1138; // 1000 pixels for 100 us
    const stream = scene.tracks.find((track) => track.label === "stream 7")!, waits = scene.tracks.find((track) => track.kind === "waits")!;
    const hit = scene.hit(138 + 250, stream.y + 3);
    expect(hit?.kind === "event" && facts(page.model, hit.event, 0).title).toBe("gemm");
    expect(scene.hit(138 + 450, stream.y + 3)).toBeNull();
    expect(scene.hit(138 + 550, waits.y + 3)).toMatchObject({ kind: "wait", index: 0 });
    expect(scene.hit(20, stream.y + 3)?.kind).toBe("label");
    scene.zoom(0.5, 138 + 500);
    expect(scene.view).toEqual([25_000, 75_000]);
    scene.fit();
    expect(scene.view).toEqual([0, 100_000]);
  });
  it("draws calls under their callers, without Python's frames unless asked", () => {
    const rows = [{ at: 0, long: 50, name: "train.py(3): step", kind: "python", lane: 0 }, { at: 1, long: 20, name: "aten::mm", kind: "operator", lane: 0 }, { at: 2, long: 3, name: "launch", kind: "launch", lane: 0 }];
    const source = { model: pageOf([runOf(rows)]).model, offset: 0 }, options = { ranks: new Set([0]), hosts: true, lanes: false };
    expect(tracksOf(source, 0, { ...options, deep: false }).map((track) => track.rows.length)).toEqual([2]);
    expect(tracksOf(source, 0, { ...options, deep: true }).map((track) => track.rows.length)).toEqual([3]);
  });
});

describe("waiting inside collectives", () => {
  const lanes = [FLOW_LANES[1], { ...FLOW_LANES[1], rank: 1 }];
  const run = runOf([{ at: 0, long: 50, name: "nccl", kind: "communication", lane: 0 }, { at: 30, long: 20, name: "nccl", kind: "communication", lane: 1 }],
    { lanes, run: { collective_waits: { start_ns: [0], wait_ns: [30_000], lane: [0], last: [1] } } });
  it("is painted on the lane of the rank that waits", () => {
    const page = pageOf([run]), held = tracksOf({ model: page.model, offset: 0 }, 0, { ranks: new Set([0, 1]), deep: false, hosts: true, lanes: false }).filter((track) => track.held);
    expect(held.map((track) => [track.rank, [...track.held!.spans.start], [...track.held!.spans.end]])).toEqual([[0, [0], [30_000]]]);
  });
  it("is told of the event: for whom, how long, and what the transfer was", () => {
    const page = pageOf([run]), told = new Map(facts(page.model, 0, 0).facts);
    expect([told.get("waited for rank 1"), told.get("transfer")]).toEqual(["30.0 µs", "20.0 µs"]);
    expect(facts(page.model, 1, 0).facts.some(([label]) => label.startsWith("waited"))).toBe(false);
  });
});

describe("two runs", () => {
  const comparison = { a: "predicted", b: "measured", a_s: 1e-4, b_s: 2e-4, difference_s: 1e-4, speedup: 0.5, summary: "It differs.", classes: [], kinds: [], phases: [], modules: [],
    operators: [{ label: "aten::mm", a_s: 3e-5, b_s: 6e-5, difference_s: 3e-5, a_count: 1, b_count: 2, reason: "why" }, { label: "idle", a_s: 0, b_s: 7e-5, difference_s: 7e-5, a_count: 0, b_count: 0, reason: "" }] };
  const predicted = { ...full(), origin: "predicted" as const };
  it("stand above each other, each from its own step's begin", () => {
    const later = runOf(flow().map((row) => ({ ...row, at: row.at + 500 })), { lanes: FLOW_LANES, steps: [[500, 600, 0]] }), panel = pairPanel(pageOf([predicted, later], 0, [comparison])) as HTMLElement;
    expect(text(panel)).toContain("Predicted and measured");
    const scene = (panel.querySelector("canvas[role=application]") as unknown as { timeline: Scene }).timeline;
    expect(scene.sources.map((s) => s.offset)).toEqual([0, 500_000]);
    const starts = scene.tracks.filter((track) => track.label === "stream 7").map((track) => track.rows[0].spans.start[track.rows[0].index[0]] - track.rows[0].spans.offset);
    expect(starts).toEqual([0, 0]);
  });
  it("differ by rows that choose their operator", () => {
    const page = pageOf([predicted, full()], 0, [comparison]), panel = comparisonPanel(page) as HTMLElement;
    expect(text(panel)).toContain("+100 µs (2.00×)");
    const rows = [...panel.querySelectorAll("tbody tr")] as HTMLElement[];
    expect(text(rows[0])).toContain("idle");
    rows[1].click();
    expect(page.selections.current?.title).toBe("mm");
    expect(rows[1].classList.contains("lit")).toBe(true);
  });
  it("are not there for a single run", () => {
    expect(pairPanel(pageOf([full()]))).toBeNull();
    expect(comparisonPanel(pageOf([full()]))).toBeNull();
  });
});

describe("ranks", () => {
  const time = { span_s: 1, busy_s: 0.9, idle_s: 0.1, compute_s: 0.5, communication_s: 0.4, exposed_communication_s: 0.4, copy_s: 0, idle_by_cause: {} };
  it("tell who waits for whom", () => {
    const call = { name: "all_reduce", group: "0", number: 4, start_ns: 0, ranks: [0, 1], waits_s: [0.002, 0], transfer_s: 0.001, last: 1, late_s: 0.002, lead_s: 0.002, reason: "more work", instead: "gemm", instead_s: 0.001 };
    const story = { ranks: [], calls: [call], sorts: [], sentence: "Rank 1 is late.", waiting_by_reason: { "more work": 0.002 } };
    const panel = ranksPanel(pageOf([runOf(flow(), { lanes: FLOW_LANES, analysis: { time: { 0: time, 1: time }, ranks: story } })])) as HTMLElement;
    expect(text(panel)).toContain("all_reduce #4: rank 1 came 2.00 ms after the others");
    expect(panel.querySelectorAll(".tm-rank").length).toBe(2);
    expect(panel.querySelectorAll(".tm-matrix .cell").length).toBe(2);
    expect(panel.querySelectorAll(".tm-meeting .row.last").length).toBe(1);
  });
  it("are not there for one rank without communication", () => expect(ranksPanel(pageOf([runOf(flow(), { lanes: FLOW_LANES, analysis: { time: { 0: time } } })]))).toBeNull());
});

describe("the view", () => {
  it("shows nothing of a run without a timeline and without figures", () => {
    const run = { ...runOf([]), timeline: null };
    expect(view.panels.map((make) => make(pageOf([run]))).filter((panel) => panel !== null)).toEqual([]);
  });
  it("has panels with names of their own, in the reader's language", () => {
    setLanguage("xx", BRACKETED);
    const panels = view.panels.map((make) => make(pageOf([full(), full()], 0, []))).filter((panel) => panel !== null);
    setLanguage("en");
    expect(new Set(panels.map((panel) => panel.id)).size).toBe(panels.length);
    expect(panels.length).toBeGreaterThan(7);
    for (const panel of panels) expect(text(panel.querySelector("h3")), panel.id).toMatch(/^⟦/);
  });
});
