// The page of claims: what articles say about GPUs, and what is true.

import { h } from "../core/dom";
import type { Claim, Claims, PageData } from "../core/document";
import { said, t, word } from "../core/language";
import { frame } from "./frame";

/** Verdicts in the order in which they are shown: what misleads comes first. */
export const ORDER = ["wrong", "imprecise", "depends", "right", "cannot say"];

interface Wish { verdict: string; topic: string; text: string }

/** Draw the claims into the page. */
export function drawClaims(place: HTMLElement, data: PageData, relanguage: () => void): void {
  const { claims, gpuscope_version } = data.claims as Claims & { gpuscope_version: string };
  const around = frame(place, relanguage, gpuscope_version);
  const wish: Wish = { verdict: "", topic: "", text: "" };
  const list = h("ol", { class: "claims" }), told = h("p", { class: "about", role: "status" });
  const chips = h("div", { class: "runs", role: "group", "aria-label": t("Verdict") });
  const draw = () => {
    const found = chosen(claims, wish);
    told.textContent = t("{n} of {all} claims", { n: found.length, all: claims.length });
    list.replaceChildren(...found.map(item));
    chips.replaceChildren(...["", ...ORDER].map((verdict) => h("button", { type: "button", class: `chip ${className(verdict)}`, "aria-pressed": String(wish.verdict === verdict), onclick: () => { wish.verdict = verdict; draw(); } },
      verdict ? word(verdict) : t("All"), " ", h("b", {}, verdict ? claims.filter((c) => c.verdict === verdict).length : claims.length))));
  };
  const topics = [...new Map(claims.map((c) => [c.topic.en, c.topic])).values()].sort((a, b) => said(a).localeCompare(said(b)));
  const tools = h("div", { class: "tools" },
    h("input", { type: "search", placeholder: t("Search"), "aria-label": t("Search the claims"), oninput: (e: Event) => { wish.text = (e.target as HTMLInputElement).value; draw(); } }),
    h("select", { "aria-label": t("Topic"), onchange: (e: Event) => { wish.topic = (e.target as HTMLSelectElement).value; draw(); } }, h("option", { value: "" }, t("All topics")), topics.map((topic) => h("option", { value: topic.en }, said(topic)))));
  around.main.append(
    h("header", { class: "explained" }, h("h1", {}, t("Claims about GPUs, checked")), h("p", { class: "lead" }, t("What articles say, held against the catalogue, the formulas, the models and recorded measurements."))),
    chips, tools, told, list);
  draw();
}

const className = (verdict: string): string => (verdict ? `verdict-${verdict.replaceAll(" ", "-")}` : "");

/** Claims that the reader wishes to see, misleading ones first. */
export function chosen(claims: readonly Claim[], wish: Wish): Claim[] {
  const needle = wish.text.trim().toLowerCase();
  return claims
    .filter((c) => (!wish.verdict || c.verdict === wish.verdict) && (!wish.topic || c.topic.en === wish.topic))
    .filter((c) => !needle || [c.id, ...Object.values(c.claim), ...Object.values(c.truth ?? {}), ...Object.values(c.topic)].some((said) => said.toLowerCase().includes(needle)))
    .sort((a, b) => ORDER.indexOf(a.verdict) - ORDER.indexOf(b.verdict));
}

function item(claim: Claim): HTMLElement {
  return h("li", { class: "panel claim", id: claim.id },
    h("div", { class: "claim-head" }, h("span", { class: `verdict ${className(claim.verdict)}` }, word(claim.verdict)), h("span", { class: "dim" }, said(claim.topic)), h("a", { class: "dim", href: `#${claim.id}` }, claim.id)),
    h("p", { class: "claimed" }, said(claim.claim)),
    claim.truth ? h("p", { class: "truth" }, said(claim.truth)) : null,
    claim.evidence ? h("p", { class: "dim evidence" }, claim.method === "none" ? null : h("b", {}, word(claim.method) + t(": ")), said(claim.evidence)) : null,
    claim.sources.length ? h("p", { class: "dim sources" }, claim.sources.join(" · ")) : null);
}
