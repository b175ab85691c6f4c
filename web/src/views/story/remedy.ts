// Beside a finding: the lines that it is about, and what to change, with the step as it would be.

import type { Finding, Remedy } from "../../core/document";
import { type Child, h } from "../../core/dom";
import { ratio, time } from "../../core/format";
import { t } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { remedyName, wishRemedy } from "../time/remedies";

/** The lines of source that a finding names, each with those around it; null where none is at hand. */
export function sourceOf(page: ReportPage, finding: Finding): HTMLElement | null {
  const known = page.run.source_lines ?? {}, lines = (finding.about?.lines ?? []).filter((line) => known[line]);
  if (!lines.length) return null;
  return h("details", { class: "finding-code" }, h("summary", {}, t("Its lines: {lines}", { lines: lines.join(t(", ")) })), stretches(lines, known).map(({ file, marked, texts }) =>
    h("figure", { class: "code-block" }, h("figcaption", {}, file), h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": file }, h("ol", { class: "source", start: String([...texts.keys()][0]) }, [...texts].map(([number, text]) =>
      h("li", { value: String(number), class: marked.has(number) ? "tone-key" : "" }, h("code", {}, text || " "))))))));
}

interface Stretch { file: string; marked: Set<number>; texts: Map<number, string> }

/** Lines of one file that touch each other together, in their order, set in as little as they can be. */
function stretches(lines: string[], known: NonNullable<ReportPage["run"]["source_lines"]>): Stretch[] {
  const files = new Map<string, Stretch>();
  for (const line of lines) {
    const at = line.lastIndexOf(":"), file = line.slice(0, at), around = known[line], one = files.get(file) ?? { file, marked: new Set(), texts: new Map() };
    one.marked.add(Number(line.slice(at + 1)));
    around.lines.forEach((text, i) => one.texts.set(around.first + i, text));
    files.set(file, one);
  }
  return [...files.values()].flatMap(({ file, marked, texts }) => {
    const numbers = [...texts.keys()].sort((a, b) => a - b), parts: number[][] = [];
    numbers.forEach((number, i) => { if (i && number === numbers[i - 1] + 1) parts.at(-1)?.push(number); else parts.push([number]); });
    const blank = (number?: number) => number !== undefined && !(texts.get(number) as string).trim();
    return parts.map((part) => {
      while (blank(part[0])) part.shift();
      while (blank(part.at(-1))) part.pop();
      const shown = part.map((number) => texts.get(number) as string), indent = Math.min(...shown.filter((text) => text.trim()).map((text) => text.length - text.trimStart().length), 99);
      return { file, marked, texts: new Map(part.map((number, i) => [number, shown[i].slice(indent)])) };
    });
  });
}

/** What to change, of all that answers a finding; [] where nothing was predicted. */
export function remediesOf(page: ReportPage, finding: number): HTMLElement[] {
  return (page.run.remedies ?? []).flatMap((remedy, at) => (remedy.findings.includes(finding) ? [remedyElement(page, remedy, at)] : []));
}

/** A change: what it does, the step with it, its diff, and the way to its timeline. */
function remedyElement(page: ReportPage, remedy: Remedy, at: number): HTMLElement {
  const name = remedyName(remedy);
  return h("div", { class: "remedy" },
    remedy.change ? h("p", {}, h("b", {}, name), t(": "), said(page, remedy)) : null,
    remedy.diff ? diffOf(remedy.diff, name) : null,
    h("button", { type: "button", class: "show-me", "aria-label": `${t("Timeline with it, beside today's")}${t(": ")}${name}`, onclick: () => {
      wishRemedy(at);
      page.show("timeline-then");
    } }, t("Timeline with it, beside today's")));
}

function said(page: ReportPage, remedy: Remedy): Child {
  const step = t("predicted {time} a step, {times} as fast", { time: time(remedy.step_time_s), times: ratio(remedy.speedup ?? page.run.step_time_s / remedy.step_time_s) });
  const interval = remedy.low !== null && remedy.high !== null ? ` ${t("(80 % sure: {low} to {high})", { low: ratio(remedy.low), high: ratio(remedy.high) })}` : "";
  return [step, interval, t(". "), remedy.numerics ? [t("Results: {numerics}.", { numerics: t(remedy.numerics) }), " "] : null, remedy.price ? t(remedy.price) : null];
}

/** A patch; lines before the first file's say what `git apply` passes over. */
function diffOf(diff: string, name: string): HTMLElement {
  const lines = diff.slice(Math.max(0, diff.indexOf("--- "))).replace(/\n$/, "").split("\n");
  const sort = (line: string) => (/^(---|\+\+\+) /.test(line) ? "file" : line.startsWith("@@") ? "place" : line.startsWith("+") ? "added" : line.startsWith("-") ? "cut" : "");
  const copy = h("button", { type: "button", class: "show-me", onclick: () => { void navigator.clipboard?.writeText(diff).then(() => { copy.textContent = t("Copied"); }); } }, t("Copy the patch"));
  return h("details", { class: "finding-code" }, h("summary", {}, t("What to change in the code")),
    h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": `${t("What to change in the code")}${t(": ")}${name}` }, h("pre", { class: "diff" }, lines.map((line) => h("span", { class: sort(line) }, `${line}\n`)))), copy);
}
