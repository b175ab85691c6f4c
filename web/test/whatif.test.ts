// The groups of "What if".

import { describe, expect, it } from "vitest";
import type { Block } from "../src/core/document";
import { groupsOf } from "../src/views/whatif/groups";

const said = (en: string, tone: string): Block => ({ block: "paragraph", text: { en, zh: en }, tone });
const bars = { block: "bars", title: { en: "b", zh: "b" }, unit: "s", bars: [], limit: null, limit_label: null, note: null } as Block;

describe("groups", () => {
  it("begin with a heading each", () => {
    const found = groupsOf([said("One", "key"), bars, said("a sentence", "good"), said("Two", "key"), bars]);
    expect(found.map((g) => g.title?.en)).toEqual(["One", "Two"]);
    expect(found.map((g) => g.blocks.length)).toEqual([2, 1]);
  });
  it("keep what stands before the first heading", () => expect(groupsOf([said("mind", "doubt"), said("One", "key"), bars]).map((g) => g.title?.en)).toEqual([undefined, "One"]));
  it("leave out headings of nothing", () => expect(groupsOf([said("One", "key")])).toEqual([]));
});
