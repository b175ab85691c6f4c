// Charts: Apache ECharts with the page's colours; drawn when near, redrawn with theme and width.

import { BarChart, LineChart, ScatterChart } from "echarts/charts";
import { GridComponent, MarkLineComponent, TooltipComponent } from "echarts/components";
import { type EChartsCoreOption, type EChartsType, init, use } from "echarts/core";
import { SVGRenderer } from "echarts/renderers";
import { type Child, css, h } from "./dom";
import { onResize, whenNear } from "./drawing";
import { onTheme } from "./theme";

use([BarChart, LineChart, ScatterChart, GridComponent, MarkLineComponent, TooltipComponent, SVGRenderer]);

export type Option = EChartsCoreOption;

export interface Chart {
  /** Where it is drawn. */
  element: HTMLElement;
  /** Draw anew, e.g. because the selection changed; nothing happens before it is first drawn. */
  redraw(): void;
  /** The chart once it is drawn. */
  instance(): EChartsType | null;
}

export interface ChartOptions {
  /** Height in pixels. */
  height: number;
  /** What it shows, for screen readers. */
  label: string;
  /** The option, made anew at every drawing (colours follow the theme). */
  option: () => Option;
  /** Set up listeners once it is there. */
  ready?: (chart: EChartsType) => void;
  /** Its width changed. */
  sized?: (width: number) => void;
}

/** A chart in an element of its own. */
export function chart({ height, label, option, ready, sized }: ChartOptions): Chart {
  const element = h("div", { class: "chart", role: "img", "aria-label": label, style: { height: `${height}px` } });
  let drawn: EChartsType | null = null;
  const draw = () => drawn?.setOption({ ...base(), ...option() }, { notMerge: true });
  whenNear(element, () => {
    drawn = init(element, null, { renderer: "svg" });
    draw();
    ready?.(drawn);
    onResize(element, () => { drawn?.resize(); sized?.(element.clientWidth); });
    const end = onTheme(() => { if (element.isConnected) draw(); else end(); });
  });
  return { element, redraw: draw, instance: () => drawn };
}

/** What all charts share. */
function base(): Option {
  return {
    animation: false,
    textStyle: { fontFamily: "inherit", color: css("--soft") },
    grid: { left: 8, right: 16, top: 16, bottom: 8, containLabel: true },
  };
}

/** A point of a series under the pointer, as ECharts tells it. */
export interface Pointed {
  seriesName?: string;
  color?: string;
  dataIndex: number;
  value: number | number[];
  /** The place on the axis, as the axis' pointer writes it. */
  axisValueLabel?: string;
}

/** A tooltip for all series at the pointer's place on the axis, one line each.
 *
 * It is made of elements: ECharts' own are strings of HTML, whose names of series would be markup
 * and whose `style` attributes the page's Content-Security-Policy forbids.
 */
export function axisTip(lines: (points: Pointed[]) => Child[], extra: Record<string, unknown> = {}): Record<string, unknown> {
  const formatter = (points: Pointed[]) => lines(points).map((line) => h("div", {}, line));
  return { trigger: "axis", confine: true, backgroundColor: css("--paper"), borderColor: css("--line"), textStyle: { color: css("--ink"), fontSize: 12.5 }, formatter, ...extra };
}

/** The lines of a tooltip that names the place and the value of every series there. */
export function seriesLines(points: Pointed[], quantity: (value: number) => string): Child[] {
  const value = (p: Pointed) => quantity(Array.isArray(p.value) ? (p.value[1] as number) : p.value);
  const rows = points.map((p) => [h("i", { class: "swatch", style: { background: p.color ?? "" } }), `${p.seriesName ?? ""} `, h("b", {}, value(p))]);
  return [points[0]?.axisValueLabel ?? "", ...rows];
}

/** An axis in the page's colours. */
export function axis(extra: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    axisLine: { lineStyle: { color: css("--faint") } },
    axisTick: { lineStyle: { color: css("--faint") } },
    axisLabel: { color: css("--soft"), fontSize: 11.5, hideOverlap: true },
    nameTextStyle: { color: css("--soft"), fontSize: 12 },
    splitLine: { lineStyle: { color: css("--line") } },
    ...extra,
  };
}
