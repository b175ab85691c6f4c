// One collective as its ranks saw it: who came when, who waited, and the transfer once the last had come.

import { classColour, roleColour } from "../../core/colours";
import { type Child, h, tipped } from "../../core/dom";
import { time } from "../../core/format";
import { operatorLabel, t } from "../../core/language";

/** A collective with much waiting (gpuscope.analysis.ranks). */
export interface Call {
  name: string; group: string; number: number; start_ns: number; ranks: number[]; waits_s: number[]; transfer_s: number;
  last: number; late_s: number; lead_s: number; reason: string; instead: string; instead_s: number;
}

/** A picture of a call: a bar a rank, from its coming to the end. */
export function meeting(call: Call): HTMLElement {
  const longest = Math.max(...call.waits_s), whole = longest + call.transfer_s, share = (s: number) => `${(s / whole) * 100}%`;
  const part = (from: number, length: number, colour: string, kind = "", ...inside: Child[]) =>
    h("i", { class: kind || null, style: { left: share(from), width: `max(1px, ${share(length)})`, "--part": colour } }, ...inside);
  const rows = call.ranks.map((rank, i) => {
    const came = longest - call.waits_s[i], last = rank === call.last;
    const lines = [t("waited {time}", { time: time(call.waits_s[i]) }), t("transfer {time}", { time: time(call.transfer_s) }), last ? `${t("last to come")}${t(": ")}${t(call.reason)}` : null,
      last && call.instead ? `${operatorLabel(call.instead)} ${time(call.instead_s)}` : null];
    return tipped(h("div", { class: `row${last ? " last" : ""}` }, h("span", { class: "number" }, t("rank {rank}", { rank })), h("span", { class: "lane" },
      last && came > 0 ? part(0, came, roleColour("compute"), "before", h("span", {}, call.instead ? `${operatorLabel(call.instead)} ${time(call.instead_s)}` : "")) : null,
      call.waits_s[i] > 0 ? part(came, call.waits_s[i], classColour("communication: waiting for another rank")) : null,
      part(longest, call.transfer_s, classColour("communication: transfer")))), t("rank {rank}", { rank }), lines);
  });
  const words = call.ranks.map((rank, i) => `${t("rank {rank}", { rank })} ${t("waited {time}", { time: time(call.waits_s[i]) })}`).join(t(", "));
  return h("figure", { class: "tm-meeting" },
    h("figcaption", {}, t("{name} #{n}: rank {last} came {late} after the others; until then they could only wait.", { name: call.name, n: call.number, last: call.last, late: time(call.late_s) })),
    h("div", { class: `rows${call.ranks.length > 16 ? " many" : ""}`, role: "img", "aria-label": words }, rows),
    h("p", { class: "tm-ends" }, h("span", {}, t("first rank comes")), h("span", {}, `${t("last rank comes")} +${time(longest)}${t(", ")}${t("transfer {time}", { time: time(call.transfer_s) })}`)));
}
