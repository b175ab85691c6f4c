// Source text with a remark beside each line that has one.

import type { CodeBlock } from "../core/document";
import { h } from "../core/dom";
import { said } from "../core/language";
import { figure } from "./figure";

export const code = (block: CodeBlock): HTMLElement =>
  figure("code-block", block.title, block.note, h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": said(block.title) }, h("ol", { class: "source", start: String(block.lines[0]?.number ?? 1) }, block.lines.map((line) =>
    h("li", { class: `tone-${line.tone}`, value: String(line.number) }, h("code", {}, line.text || " "), line.note ? h("span", { class: "remark" }, said(line.note)) : null)))));
