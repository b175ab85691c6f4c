// A pipeline's schedule: stages under each other, micro-batches over time, bubbles in sight.

import { PHASES } from "../../core/colours";
import type { Pipeline } from "../../core/document";
import { h, pressable, svg, tipped } from "../../core/dom";
import { onResize } from "../../core/drawing";
import { percent, ticks, time } from "../../core/format";
import { said, t } from "../../core/language";
import type { ReportPage } from "../../core/page";
import { asTable, latePanel, legend, table } from "../../core/panel";
import { bubbles } from "../time/losses";
import { DEVICE_KINDS } from "../../core/model";
import { sentences } from "./bits";
import { rankOf } from "./mesh_data";

type Stage = Pipeline["stages"][number];
type Block = Stage["blocks"][number];

const LEFT = 64, RIGHT = 10, TOP = 8, TALL = 30, GAP = 6;
const NS = 1e-9;

/** The panel of the schedule; null where the ranks form no pipeline. */
export function pipelinePanel(page: ReportPage): HTMLElement | null {
  const found = page.run.pipeline;
  if (!found) return null;
  return latePanel("pipeline", t("Pipeline schedule"),
    t("Each row is a stage of the model on its own rank, each block a micro-batch going forward or coming back; hatched stretches are bubbles, in which the stage has nothing to do. Press a block to choose its work."),
    () => [sentence(found), picture(page, found), legend([{ label: t("forward"), colour: PHASES.forward as string }, { label: t("backward"), colour: PHASES.backward as string }, { label: t("bubble"), colour: "var(--idle)" }]), asTable(() => stageTable(found))], 260);
}

function sentence(found: Pipeline): HTMLElement {
  const p = found.depth, m = found.micro_batches;
  return h("p", { class: "story" }, sentences([
    t("{p} stages and {m} micro-batches.", { p, m }),
    said(found.said),
    found.bubble_share <= found.ideal_share * 1.25 && m < 4 * p && t("More micro-batches make the bubble smaller."),
  ]));
}

function picture(page: ReportPage, found: Pipeline): HTMLElement {
  const place = h("div", { class: "schedule" });
  const blocks: { rank: number; block: Block; element: SVGElement }[] = [];
  const draw = () => {
    blocks.length = 0;
    place.replaceChildren(drawing(page, found, Math.max(260, place.clientWidth), blocks));
    lit();
    head();
  };
  const lit = () => {
    const chosen = page.selections.current;
    for (const { rank, block, element } of blocks) {
      const off = chosen !== null && !(chosen.ranks.has(rank) && chosen.events.some((event) => inside(page, event, rank, block)));
      element.classList.toggle("is-off", off);
    }
  };
  /** The page's cursor, where it is within the schedule. */
  const head = () => {
    const at = page.cursor?.at ?? null, root = place.querySelector("svg"), line = root?.querySelector("line.moment-line");
    if (!root || !line) return;
    const inside = at !== null && at >= found.start_ns && at <= found.end_ns, x = LEFT + (((at ?? 0) - found.start_ns) / (found.end_ns - found.start_ns)) * (root.viewBox.baseVal.width - LEFT - RIGHT);
    line.setAttribute("x1", String(x));
    line.setAttribute("x2", String(x));
    line.toggleAttribute("hidden", !inside);
  };
  page.selections.on(lit);
  page.cursor?.onSeen(place, head);
  onResize(place, draw);
  return place;
}

const inside = (page: ReportPage, event: number, rank: number, block: Block): boolean =>
  (page.model.start[event] as number) < block.end_ns && (page.model.end[event] as number) > block.start_ns && rankOf(page.run, event) === rank && (page.run.timeline?.events.kind[event] ?? 9) < DEVICE_KINDS;

function drawing(page: ReportPage, found: Pipeline, width: number, blocks: { rank: number; block: Block; element: SVGElement }[]): SVGElement {
  const length = found.end_ns - found.start_ns, x = (ns: number) => LEFT + ((ns - found.start_ns) / length) * (width - LEFT - RIGHT);
  const height = TOP + found.stages.length * (TALL + GAP) + 34;
  const root = svg("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": t("Pipeline schedule") }, hatch(), ...timeAxis(length, x, found, height, width));
  found.stages.forEach((stage, i) => {
    const y = TOP + i * (TALL + GAP);
    root.append(svg("text", { x: LEFT - 8, y: y + TALL / 2 + 4, "text-anchor": "end" }, t("rank {rank}", { rank: stage.rank })));
    for (const [from, to] of bubbles(stage, found.start_ns, found.end_ns)) root.append(tipped(svg("rect", { x: x(from), y, width: Math.max(0, x(to) - x(from)), height: TALL, style: { fill: "url(#bubble)" } }), t("bubble"), [time((to - from) * NS)]));
    for (const block of stage.blocks) {
      const element = blockElement(page, stage.rank, block, { x: x(block.start_ns), y, wide: x(block.end_ns) - x(block.start_ns) });
      blocks.push({ rank: stage.rank, block, element });
      root.append(element);
    }
  });
  root.append(svg("line", { class: "moment-line", y1: TOP - 4, y2: height - 32, hidden: true }));
  return root;
}

function blockElement(page: ReportPage, rank: number, block: Block, place: { x: number; y: number; wide: number }): SVGElement {
  const name = `${t(block.phase)} ${block.number + 1}`;
  const element = svg("g", { class: "stage-block", "aria-label": `${t("rank {rank}", { rank })}${t(", ")}${name}${t(", ")}${time((block.end_ns - block.start_ns) * NS)}` },
    svg("rect", { x: place.x, y: place.y, width: Math.max(1, place.wide - 1), height: TALL, rx: 3, style: { fill: PHASES[block.phase] as string } }),
    place.wide > 16 ? svg("text", { x: place.x + place.wide / 2, y: place.y + TALL / 2 + 4, "text-anchor": "middle" }, String(block.number + 1)) : "");
  pressable(element, () => page.selections.choose(page.model, "pipeline", `${name} · ${t("rank {rank}", { rank })}`,
    page.model.eventsWhere((event) => inside(page, event, rank, block)), { range: [block.start_ns, block.end_ns] }));
  return tipped(element, `${name} · ${t("rank {rank}", { rank })}`, [time((block.end_ns - block.start_ns) * NS), `+${time((block.start_ns - page.run.pipeline!.start_ns) * NS)}`]);
}

const hatch = (): SVGElement => svg("defs", {}, svg("pattern", { id: "bubble", width: 7, height: 7, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
  svg("rect", { width: 7, height: 7, style: { fill: "var(--wash)" } }), svg("line", { x1: 0, x2: 0, y1: 0, y2: 7, style: { stroke: "var(--idle)", strokeWidth: "4px" } })));

function timeAxis(length: number, x: (ns: number) => number, found: Pipeline, height: number, width: number): SVGElement[] {
  const y = height - 30;
  const marks = ticks(0, length * NS, Math.max(2, Math.floor(width / 130))).flatMap((tick) => {
    const at = x(found.start_ns + tick / NS);
    return [svg("line", { x1: at, x2: at, y1: TOP, y2: y, class: "grid" }), svg("text", { x: at, y: y + 14, "text-anchor": "middle" }, time(tick))];
  });
  return [...marks, svg("text", { x: (LEFT + width - RIGHT) / 2, y: y + 28, "text-anchor": "middle" }, t("time since the first forward kernel"))];
}

function stageTable(found: Pipeline): HTMLElement {
  const length = (found.end_ns - found.start_ns) * NS;
  return table<Stage>({
    caption: t("Stages of the pipeline"), rows: found.stages, columns: [
      { title: t("rank"), sort: (stage) => stage.rank, cell: (stage) => String(stage.rank) },
      { title: t("blocks"), sort: (stage) => stage.blocks.length, cell: (stage) => String(stage.blocks.length) },
      { title: t("busy"), sort: (stage) => stage.busy_s, cell: (stage) => time(stage.busy_s) },
      { title: t("bubble"), sort: (stage) => stage.bubble_s, cell: (stage) => time(stage.bubble_s) },
      { title: t("bubble share"), sort: (stage) => stage.bubble_s, cell: (stage) => percent(stage.bubble_s / length) },
    ],
  });
}
