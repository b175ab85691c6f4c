// Data, figures, links between views: what all panels rest on.

import { Blob as NodeBlob } from "node:buffer";
import { gzipSync } from "node:zlib";
import { beforeAll, describe, expect, it } from "vitest";
import { DataError, readData } from "../src/core/data";
import { count, digits, money, percent, quantity, ratio, size, ticks, time } from "../src/core/format";
import { setLanguage } from "../src/core/language";
import { Model, folder } from "../src/core/model";
import { Selections } from "../src/core/selection";
import type { Run } from "../src/core/document";

const page = { kind: "claims", version: 1, lang: "en", strings: {}, claims: { claims: [], counts: {} } };

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
    await expect(readData(JSON.stringify({ ...page, version: 2 }))).rejects.toThrow(/newer gpuscope/);
  });
});

describe("figures", () => {
  it("have three significant digits and the unit that suits", () => {
    setLanguage("en");
    expect([time(0.0123456), time(1.5e-6), time(0), time(null), time(0.0009997)]).toEqual(["12.3 ms", "1.50 µs", "0 s", "not available", "1.00 ms"]);
    expect([size(2 ** 30), size(1536), size(12)]).toEqual(["1.00 GiB", "1.50 KiB", "12 B"]);
    expect([count(8192), count(157_000), count(3), count(1.5)]).toEqual(["8,192", "157 k", "3", "1.50"]);
    expect([percent(0.382), percent(0.0001), percent(0), percent(1.5)]).toEqual(["38.2 %", "< 0.1 %", "0.0 %", "150 %"]);
    expect([ratio(1.4512), money(1234.5), money(0.2134), digits(0)]).toEqual(["1.45×", "$1,235", "$0.213", "0"]);
  });
  it("follow the units of explanations", () => {
    expect(quantity(4.8e12, "bytes/s")).toBe("4.80 TB/s");
    expect(quantity(0.5, "share")).toBe("50.0 %");
    expect(quantity(4096, "")).toBe("4096");
    expect(quantity(12345, "")).toBe("12,345");
    expect(quantity(null, "s")).toBe("not available");
    expect(quantity(32, "lanes")).toBe("32 lanes");
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
