// The shapes of the data: docs/json.md in TypeScript. Only what the page reads is named.

import type { Texts } from "./language";

/** A text by language; English is always there. */
export type Words = { en: string } & Record<string, string>;
export type Cell = number | string | Words | null | undefined;

export interface PageData {
  kind: "report" | "explanation" | "book" | "claims";
  version: number;
  lang: string;
  /** Words and sentences of the data in other languages, by the English one. */
  strings: Texts;
  report?: Report;
  explanation?: Explanation;
  book?: Book;
  claims?: Claims;
}

export interface Report {
  names: string[];
  runs: Run[];
  /** Devices that cannot run what the others run, and why. */
  refused?: { device_id: string; target: string; what: string; why: string }[];
  /** Comparisons of run 0 with the others, where runs can be compared. */
  comparisons: Comparison[];
  what_if: Block[];
  /** What to change, told before the run (gpuscope advise). */
  advice?: Explanation;
}

/** A change of a predicted run, predicted as the run was (views/report/data.py). */
export interface Remedy {
  /** Places of the findings that it answers. */
  findings: number[];
  step_time_s: number;
  /** Its name; "" where the program was changed, and no code. */
  change: string;
  title: string | null;
  speedup: number | null; low: number | null; high: number | null;
  /** Unified diff of the user's code; "" where it is not known. */
  diff: string;
  numerics: string | null; price: string | null;
  timeline: ThinTimeline;
}
/** A rank's timeline with what a picture of it needs; begins are differences to the one before. */
export interface ThinTimeline {
  lanes: { name: string; kind: Lane["kind"]; rank: number }[]; steps: { start_ns: number; end_ns: number; rank: number }[]; kinds: string[];
  start_ns: number[]; duration_ns: number[]; lane: number[]; kind: number[]; name: number[]; family: number[]; op: number[]; correlation: number[];
  left_out: number; names: string[]; families: string[]; ops: [name: string, module: string, phase: string][];
}

export interface Share {
  label: string; time_s: number; count: number; flops: number; moved_bytes: number; limiter: string;
  best_s: number | null; family: string; running_s?: number | null;
}
export interface ModuleShare {
  path: string; class_name: string; depth: number; time_s: number; self_s: number; forward_s: number;
  backward_s: number; flops: number; parameters: number; peak_bytes: number | null; count: number;
}
export interface RooflinePoint {
  label: string; kind: string; intensity_flops_per_byte: number; flops_per_s: number; time_s: number;
  count: number; limiter: string; roof_flops_per_s: number; kernel: string; group: string;
}
/** Kernels of a family without counted FLOPs (analysis/roofline.py): they have no place on the roofline. */
export interface BesideRoofline {
  kind: string; time_s: number; count: number; moved_bytes: number; bytes_per_s: number | null; memory_share: number | null;
}
export interface Task {
  label: string; kind: string; count: number; time_s: number; grid: number; block: number; tile: number[];
  waves: number; tail_loss: number; occupancy: number | null; limiter: string; kernel: string; group: string;
}
export interface Finding {
  kind: string; title: string; evidence: string; max_gain_s: number | null; hint: string;
  /** Rows of the timeline's events, operators, lines and idle time that it is about. */
  about?: { events: number[]; operators: string[]; lines: string[]; idle: string[]; explains_s: number } | null;
  predicted_step_s?: number | null;
  /** Kinds of the findings that have the rest of its gain. */
  rest_with?: string[];
}
export interface RankTime {
  span_s: number; busy_s: number; idle_s: number; compute_s: number; communication_s: number;
  exposed_communication_s: number; copy_s: number; idle_by_cause: Record<string, number>;
}
export interface Memory {
  peak_bytes: number; reserved_bytes: number | null; peak_time_s: number; at_peak: Record<string, number>;
  holders: [string, number][]; time_s: number[]; allocated_bytes: number[]; reserved_curve_bytes: number[];
  capacity_bytes: number | null; fits: boolean | null; missing_bytes: number;
}
export interface CriticalPath {
  start_ns: number; end_ns: number; steps: number; time_s: Record<string, number>;
  shares: { kind: string; name: string; time_s: number; count: number; start_ns: number; longest_s: number }[];
  gain_s: Record<string, number>; segment_start_ns: number[]; segment_kind: number[] | string[];
  segment_name: number[]; segment_lane: number[]; names: string[];
}

// Parts that few panels read are left open: docs/json.md describes them.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type Open = any;

export interface Analysis {
  step_s: number;
  time: Record<string, RankTime>;
  classes: Share[]; kinds: Share[]; operators: Share[]; phases: Share[]; symbols: Share[]; host: Share[];
  modules: ModuleShare[];
  roofline: { points: RooflinePoint[]; peak_flops_per_s: Record<string, number>; memory_bandwidth_bytes_per_s: number | null; beside?: BesideRoofline[] } | null;
  tasks: Task[];
  memory: Memory | null;
  /** The account of the step (analysis/account_types.py). */
  account?: { terms: { key: string; time_s: number | null; from_s: number }[]; by_group?: Record<string, Record<string, number>>; rank?: number } | null;
  energy: Open | null;
  utilisation: Open | null;
  findings: Finding[];
  critical_path: CriticalPath | null;
  idle_spots: Open[];
  launches: Open | null;
  copies: Open[];
  trust: Open | null;
  ranks: Open | null;
  /** What the ranks of a predicted job do with a step; absent of one device. */
  job?: Open | null;
  communication: Open | null;
  step_spread: Open | null;
  host_work_s: number | null;
}

export interface KernelRow {
  name: string; kind: string; duration_s: number; low_s: number; high_s: number; flops: number;
  read_bytes: number; written_bytes: number; least_bytes: number; grid: number; block: number; tile: number[];
  waves: number; occupancy: number | null; limiter: string; dtype: string; compute_s: number; memory_s: number;
  origin: string; lane: string; note: string; group: string;
}
export interface Lane { name: string; kind: "host" | "stream" | "copy" | "link"; rank: number; device: number }
export interface Timeline {
  origin: string; notes: string[]; names: string[]; kinds: string[]; lanes: Lane[];
  steps: { start_ns: number; end_ns: number; rank: number; found?: string }[];
  events_total: number; truncation: string;
  events: Record<"start_ns" | "duration_ns" | "name" | "kind" | "lane" | "op" | "kernel" | "correlation", number[]>;
  counters: { name: string; unit: string; time_ns: number[]; value: (number | null)[] }[];
  kernels: KernelRow[];
  ops: {
    names: string[]; modules: string[];
    /** The user's lines; older files have none. */
    sites?: string[];
    signatures: { inputs: { shape: number[]; stride: number[]; dtype: string; device: string }[]; outputs: { shape: number[]; dtype: string }[] }[];
    columns: { name: number[]; module: number[]; phase: string[]; signature: number[]; repeat: number[]; recomputed: boolean[]; stream: number[]; sync: string[]; site?: number[] };
  };
  collectives: { name: string; group: string; group_size: number | null; group_ranks: number[]; dtype: string; in_elements: number | null; out_elements: number | null }[];
  sources: Open[];
  recorded: Record<string, Open> | null;
}

/** Idle stretches of one rank's device with their causes (views/report/idle_gaps.py). */
export interface IdleGaps {
  rank: number; start_ns: number[]; duration_ns: number[]; cause: number[]; what: number[];
  causes: string[]; names: string[]; left_out: number; left_out_ns: number;
}

/** Who sends what to whom (analysis/mesh.py); times and bytes per step. */
export interface Mesh {
  ranks: {
    rank: number; host: string; device: number | null; recorded: boolean; compute_s: number | null; communication_s: number;
    transfer_s: number | null; waiting_s: number | null; caused_s: number | null; sent_bytes: number | null;
  }[];
  groups: {
    name: string; ranks: number[]; size: number | null;
    sorts: { name: string; dtype: string; count: number; message_bytes: number | null; sent_bytes: number | null; time_s: number }[];
  }[];
  flows: { sender: number; receiver: number; group: number; sent_bytes: number }[];
  steps: number; unplaced: number;
}

/** The schedule of a pipeline's stages in one step (analysis/pipeline.py). */
export interface Pipeline {
  start_ns: number; end_ns: number; depth: number; micro_batches: number; bubble_share: number; ideal_share: number; said: Words;
  stages: { rank: number; busy_s: number; bubble_s: number; blocks: { phase: "forward" | "backward"; number: number; start_ns: number; end_ns: number }[] }[];
}

/** Waiting inside collectives' kernels, from their begin (views/report/collective_waits.py). */
export interface CollectiveWaits { start_ns: number[]; wait_ns: number[]; lane: number[]; last: number[] }

export interface Run {
  name: string; target: string; device_id: string; origin: "predicted" | "measured";
  step_time_s: number; step_time_interval_s: [number, number];
  /** What stands behind a prediction: "measured", "carried", "prior"; "" elsewhere. */
  evidence?: string;
  device_busy_s: number | null; host_busy_s: number | null;
  peak_memory_bytes: number | null; reserved_memory_bytes: number | null; energy_j: number | null;
  fits: boolean | null; samples: number | null; tokens: number | null; ranks: number[];
  assumptions: string[]; origins: Record<string, string>; gpuscope_version: string;
  figures: Record<string, Open>; program: Open | null; measurement: Open | null;
  analysis: Analysis; timeline: Timeline | null;
  modules_folded: ModuleShare[];
  /** What the catalogue knows of the device (views/report/device_facts.py); null for an unknown one. */
  device: DeviceFacts | null;
  /** What the device's units do over one step (analysis/use_over_time.py); null where no kernel is known. */
  use: UseOverTime | null;
  /** What one launch of a kernel group asks of the units; groups whose work is not known are left out. */
  use_by_group?: Record<string, KernelUse>;
  /** Changes of the run, predicted. */
  remedies?: Remedy[];
  /** The source around lines that findings name, by the line ("train.py:12"). */
  source_lines?: Record<string, { first: number; lines: string[] }>;
  /** Memory by category over the step (views/report/memory_curve.py); null where no program says what it holds. */
  memory_curve: { time_ns: number[]; categories: string[]; allocated_bytes: number[][] } | null;
  /** What lay where in memory (views/report/memory_blocks.py); null where nothing says it. */
  memory_blocks?: MemoryBlockColumns | null;
  /** Which rank's figures the tables hold (views/words.py); null where there is one rank only. */
  whose?: string | null;
  /** The step of each rank of a predicted job, and its mesh (views/report/job_blocks.py). */
  job_blocks?: Block[];
  /** From the best possible time to the step (views/run_figures/account.py). */
  account_block?: Block | null;
  /** Which term of the account each bar of it is. */
  account_keys?: string[];
  /** What a whole script printed on the predicted clock (views/report/data.py); null for others. */
  printed_block?: Block | null;
  idle_gaps?: IdleGaps[];
  collective_waits?: CollectiveWaits | null;
  /** Explanations of the longest kernels, as blocks, by kernel group (views/report/kernels.py). */
  kernels_explained: Record<string, Block[]>;
  mesh: Mesh | null;
  pipeline: Pipeline | null;
}
/** Blocks of the allocator, each a row; times of -1 lie before the begin and after the end. */
export interface MemoryBlockColumns {
  begin_ns: number; end_ns: number; segments: [number, number][];
  address: number[]; nbytes: number[]; born_ns: number[]; died_ns: number[]; op: number[];
  category: number[]; owner: number[]; label: number[]; stack: number[]; words: string[]; stacks: number[][];
  left_out: number; left_out_bytes: number;
}
export interface LinkFacts {
  name: string; bandwidth_bytes_per_s: number | null; origin: string; latency_s: number | null;
  topology: string | null; max_devices: number | null;
}
export interface DeviceFacts {
  id: string; name: string; vendor: string; architecture: string; compute_units: number | null; compute_unit_label: string;
  max_threads_per_unit: number | null; max_warps_per_unit: number | null; max_blocks_per_unit: number | null; warp_size: number | null;
  clock_hz: number | null; peaks: { dtype: string; flops_per_s: number; tensor: boolean; origin: string }[];
  tensor_flops_per_clock: number | null; l2_bytes: number | null; l1_bytes_per_unit: number | null;
  shared_bytes_per_unit: number | null; registers_per_unit: number | null; l2_bytes_per_s: number | null;
  l2_unit_bytes_per_s: number | null; memory_type: string | null; memory_bytes: number; memory_usable_bytes: number;
  memory_bandwidth_bytes_per_s: number; read_share: number | null; write_share: number | null;
  host_link: LinkFacts | null; scale_up: LinkFacts | null; scale_out: LinkFacts | null; copy_engines: number | null;
  power_limit_w: number | null; power_idle_w: number | null; price_usd_per_hour: number | null;
  calibrated_on: string | null; calibration: string; origins: Record<string, string>;
}
export interface UseSeries {
  key: "tensor" | "vector" | "sm" | "memory" | "l2" | "link" | "h2d" | "d2h" | "power"; unit: "share" | "bytes/s" | "W";
  values: number[]; limit: number | null; total: number; parts: Record<string, number>; known: number;
  is_least: boolean; origin: string; limit_origin: string;
}
/** What one launch asks of the units (analysis/use_types.py). */
export interface KernelUse { tensor_s: number; vector_s: number; sm_share: number | null; memory_bytes: number; l2_bytes: number | null }
export interface UseOverTime {
  rank: number; start_ns: number; end_ns: number; bins: number; series: UseSeries[];
  phases: { name: string; start_ns: number; end_ns: number }[]; l2_bytes: Record<string, number>; matrix_flops: number | null;
}
export interface ComparisonRow { label: string; a_s: number; b_s: number; difference_s: number; a_count: number; b_count: number; reason: string }
export interface Comparison {
  a: string; b: string; a_s: number; b_s: number; difference_s: number; speedup: number | null;
  summary: Open; classes: ComparisonRow[]; kinds: ComparisonRow[]; operators: ComparisonRow[]; phases: ComparisonRow[]; modules: ComparisonRow[];
}

// -- explanations (gpuscope/document/blocks.py) ---------------------------------------------------

export interface Explanation {
  topic: string; key: string; title: Words; summary: Words[]; sections: { title: Words; blocks: Block[] }[];
  commands: string[]; sources: (string | Words)[]; assumptions: Words[];
}
export interface Book { title: Words; about: Words | null; chapters: Explanation[] }

export interface ParagraphBlock { block: "paragraph"; text: Words; tone: string }
export interface Fact { label: Words; value: Cell; unit: string; origin: string; low: number | null; high: number | null; note: Words | null }
export interface FactsBlock { block: "facts"; rows: Fact[]; title: Words | null }
export interface TableBlock { block: "table"; title: Words; columns: { label: Words; unit: string }[]; rows: Cell[][]; marked: number[]; note: Words | null }
export interface BarsBlock {
  block: "bars"; title: Words; unit: string; bars: { label: Cell; parts: { label: Words; value: number; role: string }[]; note: Words | null; start?: number }[];
  limit: number | null; limit_label: Words | null; note: Words | null;
}
export interface Axis { label: Words; unit: string; log: boolean }
export interface Series { label: Words; x: number[]; y: (number | null)[]; shape: "line" | "steps" | "points"; role: string; low: number[]; high: number[] }
export interface Mark { label: Words; x: number | null; y: number | null; role: string }
export interface LinesBlock { block: "lines"; title: Words; x: Axis; y: Axis; series: Series[]; marks: Mark[]; note: Words | null }
export interface HeatMapBlock {
  block: "heatmap"; title: Words; x: Axis; y: Axis; values: (number | null)[][]; unit: string; classes: Words[]; roles: string[];
  x_labels: string[]; y_labels: string[]; note: Words | null;
}
export interface DiagramNode { key: string; label: Words; kind: string; x: number; y: number; width: number; height: number; detail: Words | null; cells: number }
export interface DiagramLink { a: string; b: string; label: Words | null; bytes_per_s: number | null; limit_bytes_per_s: number | null; narrowest: boolean; directed: boolean; step: number | null }
export interface DiagramBlock { block: "diagram"; title: Words; nodes: DiagramNode[]; links: DiagramLink[]; steps: Words[]; note: Words | null }
export interface CodeBlock { block: "code"; title: Words; language: string; lines: { number: number; text: string; note: Words | null; tone: string }[]; note: Words | null }
export interface Slider { key: string; label: Words; values: (number | string)[]; unit: string; start: number }
export interface Output { key: string; label: Words; unit: string; values: (number | string | Words | null)[]; low: (number | null)[]; high: (number | null)[]; plotted: boolean; role: string }
export interface ExplorerBlock { block: "explorer"; title: Words; sliders: Slider[]; outputs: Output[]; x: string; log_x: boolean; log_y: boolean; reading: Words | null; note: Words | null }
export type Block = ParagraphBlock | FactsBlock | TableBlock | BarsBlock | LinesBlock | HeatMapBlock | DiagramBlock | CodeBlock | ExplorerBlock;

// -- claims (gpuscope/learn/claims/document.py) --------------------------------------------------

export interface Claim {
  id: string; topic: Words; claim: Words; claimed: string; unit: string; verdict: string; truth: Words | null;
  evidence: Words | null; method: string; sources: string[];
}
export interface Claims { claims: Claim[]; counts: Record<string, number> }
