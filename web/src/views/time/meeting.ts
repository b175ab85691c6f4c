// One collective as its ranks saw it: who came when, who waited, and the transfer once the last had come.

import { classColour, roleColour } from "../../core/colours";
import { h, svg, tipped } from "../../core/dom";
import { time } from "../../core/format";
import { operatorLabel, t } from "../../core/language";

/** A collective with much waiting (gpuscope.analysis.ranks). */
export interface Call {
  name: string; group: string; number: number; start_ns: number; ranks: number[]; waits_s: number[]; transfer_s: number;
  last: number; late_s: number; lead_s: number; reason: string; instead: string; instead_s: number;
}

const ROW = 18, LEFT = 64, WIDTH = 720, AXIS = 22;

/** A picture of a call: a bar a rank, from its coming to the end. */
export function meeting(call: Call): HTMLElement {
  const longest = Math.max(...call.waits_s), whole = longest + call.transfer_s, row = call.ranks.length > 24 ? 9 : ROW;
  const x = (s: number) => LEFT + (s / whole) * (WIDTH - LEFT - 8), height = call.ranks.length * row + AXIS;
  const bars = call.ranks.map((rank, i) => {
    const came = longest - call.waits_s[i], y = AXIS + i * row, last = rank === call.last;
    const lines = [t("waited {time}", { time: time(call.waits_s[i]) }), t("transfer {time}", { time: time(call.transfer_s) }), last ? `${t("last to come")}${t(": ")}${t(call.reason)}` : null];
    return tipped(svg("g", {},
      row > 10 || i % 4 === 0 ? svg("text", { x: LEFT - 8, y: y + row / 2 + 4, "text-anchor": "end", class: last ? "strong" : null }, t("rank {rank}", { rank })) : null,
      last ? svg("rect", { x: x(0), y: y + 2, width: Math.max(0, x(came) - x(0)), height: row - 4, fill: roleColour("compute"), "fill-opacity": 0.35 }) : null,
      svg("rect", { x: x(came), y: y + 2, width: Math.max(0.5, x(longest) - x(came)), height: row - 4, fill: classColour("communication: waiting for another rank") }),
      svg("rect", { x: x(longest), y: y + 2, width: Math.max(1, x(whole) - x(longest)), height: row - 4, fill: classColour("communication: transfer") }),
      last && call.instead ? svg("text", { x: x(0) + 6, y: y + row / 2 + 4, class: "inside" }, cut(`${operatorLabel(call.instead)} ${time(call.instead_s)}`, (x(came) - x(0) - 10) / 6.4)) : null), t("rank {rank}", { rank }), lines);
  });
  const words = call.ranks.map((rank, i) => `${t("rank {rank}", { rank })} ${t("waited {time}", { time: time(call.waits_s[i]) })}`).join(t(", "));
  return h("figure", { class: "tm-meeting" },
    h("figcaption", {}, t("{name} #{n}: rank {last} came {late} after the others; until then they could only wait.", { name: call.name, n: call.number, last: call.last, late: time(call.late_s) })),
    svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, class: "plot", role: "img", "aria-label": words },
      svg("text", { x: LEFT, y: 13 }, t("first rank comes")), svg("text", { x: Math.min(x(longest) - 4, WIDTH - 130), y: 13, "text-anchor": "end" }, `+${time(longest)} ${t("last rank comes")}`),
      svg("line", { x1: x(longest), x2: x(longest), y1: 4, y2: height, class: "tm-last" }), bars));
}

const cut = (text: string, room: number): string => (room < 5 ? "" : text.length > room ? `${text.slice(0, Math.floor(room) - 1)}…` : text);
