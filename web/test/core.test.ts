// Data, figures, links between views: what all panels rest on.

import { Blob as NodeBlob } from "node:buffer";
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { beforeAll, describe, expect, it } from "vitest";
import { DataError, readData } from "../src/core/data";
import { quantity, ticks } from "../src/core/format";
import { setLanguage } from "../src/core/language";
import { Model, folder } from "../src/core/model";
import { Selections } from "../src/core/selection";
import type { Run } from "../src/core/document";

const CASES = JSON.parse(readFileSync("../tests/document/format_cases.json", "utf8")) as [number | string | null, string, string][];

const page = { kind: "claims", version: 2, lang: "en", strings: {}, claims: { claims: [], counts: {} } };

beforeAll(() => { globalThis.Blob = NodeBlob as unknown as typeof Blob; }); // jsdom's cannot be streamed

describe("data", () => {
  it("is read plain and compressed", async () => {
    const plain = JSON.stringify(page);
    expect(await readData(plain)).toEqual(page);
    expect(await readData(`gzip:${gzipSync(plain).toString("base64")}`)).toEqual(page);
  });
  it.each(["", "{", '{"kind":"report"}', "gzip:AAAA", "null", "[]"])("that is damaged is refused: %s", async (text) => {
    await expect(readData(text)).rejects.toThrow(DataError);
  });
  it("of a newer version is refused and says so", async () => {
    await expect(readData(JSON.stringify({ ...page, version: 3 }))).rejects.toThrow(/newer gpuscope/);
  });
});

describe("figures", () => {
  it.each(CASES)("are those of Python: %s in %s", (value, unit, text) => {
    setLanguage("en");
    expect(quantity(value === null ? null : Number(String(value).replace("inf", "Infinity")), unit)).toBe(text);
  });
  it("stand on round ticks", () => {
    expect(ticks(0, 10, 5)).toEqual([0, 2, 4, 6, 8, 10]);
    expect(ticks(3, 3, 5)).toEqual([3]);
  });
});

const module_ = (path: string, depth: number) => ({ path, class_name: "", depth, time_s: 0, self_s: 0, forward_s: 0, backward_s: 0, flops: 0, parameters: 0, peak_bytes: null, count: 1 });

describe("folded modules", () => {
  const find = folder([module_("", 0), module_("h", 1), module_("h.{0..11}", 2), module_("h.{0..11}.mlp", 3), module_("head", 1)]);
  it("hold the layers that they stand for", () => {
    expect(["", "h", "h.0", "h.11", "h.7.mlp", "head"].map(find)).toEqual([0, 1, 2, 2, 3, 4]);
  });
  it("send what is not drawn to the nearest above", () => {
    expect(find("h.3.mlp.fc")).toBe(3);
    expect(find("h.12")).toBe(1);
    expect(find("elsewhere")).toBe(0);
  });
});

function run(): Run {
  const events = { start_ns: [0, 10, 30], duration_ns: [5, 10, 5], name: [0, 0, 1], kind: [0, 0, 4], lane: [0, 0, 1], op: [0, 1, 0], kernel: [0, 1, -1], correlation: [-1, -1, -1] };
  const columns = { name: [0, 0], module: [0, 1], phase: ["forward", "forward"], signature: [0, 0], repeat: [1, 1], recomputed: [false, false], stream: [0, 0], sync: ["", ""] };
  return {
    modules_folded: [module_("", 0), module_("a", 1), module_("b", 1)],
    timeline: {
      kinds: ["kernel", "communication", "memcpy", "memset", "operator"], names: ["k", "op"], events,
      lanes: [{ name: "stream", kind: "stream", rank: 3, device: 0 }, { name: "host", kind: "host", rank: 3, device: -1 }],
      kernels: [{ group: "g" }, { group: "g" }], ops: { names: ["aten::mm"], modules: ["a", "b"], signatures: [], columns },
    },
  } as unknown as Run;
}

describe("links between views", () => {
  const model = new Model(run(), 0);
  it("lead from groups, operators and modules to their events", () => {
    expect(model.eventsOfGroup("g")).toEqual([0, 1]);
    expect(model.eventsOfOperator("aten::mm")).toEqual([0, 1, 2]);
    expect(model.eventsOfModule("a")).toEqual([0, 2]);
    expect(model.eventsOfModule("")).toEqual([0, 1, 2]);
    expect(model.eventsOfGroup("unknown")).toEqual([]);
  });
  it("tell everyone what was chosen, and what it belongs to", () => {
    const selections = new Selections();
    const heard: (string | null)[] = [];
    selections.on((s) => heard.push(s?.title ?? null));
    selections.choose(model, "timeline", "one", [1]);
    expect(selections.current?.event).toBe(1);
    expect([...(selections.current?.modules ?? [])]).toEqual(["b"]);
    expect([...(selections.current?.groups ?? [])]).toEqual(["g"]);
    expect([...(selections.current?.ranks ?? [])]).toEqual([3]);
    selections.clear();
    expect(heard).toEqual([null, "one", null]);
  });
});
