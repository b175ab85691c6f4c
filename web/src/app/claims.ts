// The page of claims: what articles say about GPUs, and what is true.

import { h } from "../core/dom";
import type { Claims, PageData } from "../core/document";
import { said, t } from "../core/language";
import { frame } from "./frame";

/** Draw the claims into the page. */
export function drawClaims(place: HTMLElement, data: PageData, relanguage: () => void): void {
  const claims = data.claims as Claims & { gpuscope_version: string };
  const around = frame(place, relanguage, claims.gpuscope_version);
  around.main.append(h("h1", {}, t("Claims about GPUs, checked")), h("ul", {}, claims.claims.map((claim) => h("li", {}, said(claim.claim)))));
}
