// Pointer and keys on the curves: read a moment, choose a stretch.

import { hideTip, showTip, svg } from "../../core/dom";
import type { UseOverTime } from "../../core/document";
import { time } from "../../core/format";
import { t, word } from "../../core/language";
import type { Frame } from "./use";
import { unitName, value } from "./units";

/** Let a moment be read under the pointer or the arrows, and a stretch be chosen by dragging or with Shift. */
export function attend(stage: HTMLElement, picture: SVGSVGElement, use: UseOverTime, frame: Frame, choose: (from: number, to: number) => void): void {
  const span = use.end_ns - use.start_ns, wide = frame.right - frame.left;
  const x = (ns: number) => frame.left + ((ns - use.start_ns) / span) * wide;
  const cursor = svg("line", { class: "cursor", y1: 4, y2: frame.height - 28, visibility: "hidden" });
  const brush = svg("rect", { class: "brush", y: 4, height: frame.height - 32, visibility: "hidden" });
  picture.append(brush, cursor);
  let from: number | null = null, at = use.start_ns;
  const moment = (e: PointerEvent) => {
    const box = picture.getBoundingClientRect(), scale = frame.width / (box.width || 1);
    return Math.min(use.end_ns, Math.max(use.start_ns, use.start_ns + (((e.clientX - box.left) * scale - frame.left) / wide) * span));
  };
  const show = (ns: number, clientX: number, clientY: number) => {
    at = ns;
    cursor.setAttribute("x1", String(x(ns)));
    cursor.setAttribute("x2", String(x(ns)));
    cursor.setAttribute("visibility", "visible");
    const bin = Math.min(use.bins - 1, Math.floor(((ns - use.start_ns) / span) * use.bins));
    const phase = use.phases.find((p) => p.start_ns <= ns && ns < p.end_ns);
    const lines = use.series.map((s) => `${unitName(s.key)}${t(": ")}${value(s, s.values[bin])}`);
    stage.setAttribute("aria-valuenow", String(bin));
    stage.setAttribute("aria-valuetext", [time((ns - use.start_ns) * 1e-9), ...lines].join(", "));
    showTip(clientX, clientY, time((ns - use.start_ns) * 1e-9) + (phase ? ` · ${word(phase.name)}` : ""), lines);
  };
  const mark = (a: number, b: number) => {
    brush.setAttribute("visibility", "visible");
    brush.setAttribute("x", String(x(Math.min(a, b))));
    brush.setAttribute("width", String(Math.max(1, Math.abs(x(b) - x(a)))));
  };
  const finish = () => {
    if (from !== null && Math.abs(x(at) - x(from)) > 3) choose(Math.min(from, at), Math.max(from, at));
    from = null;
    brush.setAttribute("visibility", "hidden");
  };
  picture.addEventListener("pointerdown", (e) => {
    if (e.pointerType === "touch" || e.button !== 0) return;
    from = moment(e);
    picture.setPointerCapture(e.pointerId);
  });
  picture.addEventListener("pointermove", (e) => {
    show(moment(e), e.clientX, e.clientY);
    if (from !== null) mark(from, at);
  });
  picture.addEventListener("pointerup", finish);
  picture.addEventListener("pointercancel", () => { from = null; brush.setAttribute("visibility", "hidden"); });
  picture.addEventListener("pointerleave", () => { cursor.setAttribute("visibility", "hidden"); hideTip(); });
  stage.addEventListener("blur", () => { cursor.setAttribute("visibility", "hidden"); hideTip(); });
  stage.addEventListener("keydown", (e) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, PageDown: 24, PageUp: -24 }[e.key];
    if (step !== undefined) {
      e.preventDefault();
      if (e.shiftKey && from === null) from = at;
      if (!e.shiftKey) { from = null; brush.setAttribute("visibility", "hidden"); }
      const box = picture.getBoundingClientRect(), next = Math.min(use.end_ns, Math.max(use.start_ns, at + (step * span) / 120));
      show(next, box.left + (x(next) / frame.width) * box.width, box.top + 30);
      if (from !== null) mark(from, at);
    } else if (e.key === "Enter" || e.key === " ") {
      e.preventDefault();
      if (from === null) { from = at - span / 240; at += span / 240; }
      finish();
    }
  });
}
