// Which ranks the timeline shows: a chip each while they are few, else a field such as "0-3, 8".

import { h } from "../../core/dom";
import { t } from "../../core/language";

const CHIPS = 16;

/** The chooser; `change` is called with what the reader chose, never with none. */
export function rankChooser(ranks: number[], chosen: () => ReadonlySet<number>, change: (ranks: Set<number>) => void): HTMLElement {
  const box = h("span", { class: "group ranks", role: "group", "aria-label": t("Ranks to show") });
  const draw = () => box.replaceChildren(h("span", { class: "dim" }, t("ranks")), ...(ranks.length <= CHIPS ? chips() : field()),
    h("button", { type: "button", onclick: () => set(chosen().size === ranks.length ? new Set(ranks.slice(0, 1)) : new Set(ranks)) }, chosen().size === ranks.length ? t("only {rank}", { rank: ranks[0] }) : t("all")));
  const set = (wanted: Set<number>) => { if (wanted.size) { change(wanted); draw(); } };
  const chips = () => ranks.map((rank) => h("button", { type: "button", class: "chip", "aria-pressed": String(chosen().has(rank)), "aria-label": t("rank {rank}", { rank }), onclick: () => {
    const wanted = new Set(chosen());
    if (!wanted.delete(rank)) wanted.add(rank);
    set(wanted);
  } }, String(rank)));
  const field = () => [h("input", { type: "text", class: "ranks-field", value: spelled([...chosen()]), "aria-label": t("Ranks to show, such as 0-3, 8"), onchange: (e: Event) => {
    const input = e.target as HTMLInputElement, wanted = parseRanks(input.value, ranks);
    input.setAttribute("aria-invalid", String(!wanted.size));
    set(wanted);
  } })];
  draw();
  return box;
}

/** The ranks that a text such as "0-3, 8" names, of those that there are. */
export function parseRanks(text: string, ranks: readonly number[]): Set<number> {
  const wanted = new Set<number>();
  for (const part of text.split(/[,\s，、]+/)) {
    const match = /^(\d+)(?:[-–](\d+))?$/.exec(part);
    if (!match) continue;
    const low = Number(match[1]), high = Number(match[2] ?? match[1]);
    for (const rank of ranks) if (rank >= low && rank <= high) wanted.add(rank);
  }
  return wanted;
}

/** Ranks as a short text: runs are folded. */
export function spelled(ranks: readonly number[]): string {
  const sorted = [...ranks].sort((a, b) => a - b), parts: string[] = [];
  for (let i = 0; i < sorted.length;) {
    let j = i;
    while (j + 1 < sorted.length && sorted[j + 1] === sorted[j] + 1) j++;
    parts.push(j > i ? `${sorted[i]}-${sorted[j]}` : String(sorted[i]));
    i = j + 1;
  }
  return parts.join(", ");
}
