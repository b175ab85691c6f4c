// Charts: Apache ECharts with the page's colours; drawn when near, redrawn with theme and width.

import { BarChart, CustomChart, HeatmapChart, LineChart, ScatterChart, SunburstChart, TreemapChart } from "echarts/charts";
import { AriaComponent, DataZoomComponent, GridComponent, LegendComponent, MarkAreaComponent, MarkLineComponent, MarkPointComponent, TooltipComponent, VisualMapComponent } from "echarts/components";
import { type EChartsCoreOption, type EChartsType, init, use } from "echarts/core";
import { SVGRenderer, CanvasRenderer } from "echarts/renderers";
import { css, h, whenNear } from "./dom";
import { onTheme } from "./theme";

use([BarChart, CustomChart, HeatmapChart, LineChart, ScatterChart, SunburstChart, TreemapChart, AriaComponent, DataZoomComponent, GridComponent,
  LegendComponent, MarkAreaComponent, MarkLineComponent, MarkPointComponent, TooltipComponent, VisualMapComponent, SVGRenderer, CanvasRenderer]);

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
  renderer?: "svg" | "canvas";
}

/** A chart in an element of its own. */
export function chart({ height, label, option, ready, renderer = "svg" }: ChartOptions): Chart {
  const element = h("div", { class: "chart", role: "img", "aria-label": label, style: { height: `${height}px` } });
  let drawn: EChartsType | null = null;
  const draw = () => drawn?.setOption({ ...base(), ...option() }, { notMerge: true });
  whenNear(element, () => {
    drawn = init(element, null, { renderer });
    draw();
    ready?.(drawn);
    new ResizeObserver(() => drawn?.resize()).observe(element);
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
    tooltip: { trigger: "item", confine: true, backgroundColor: css("--paper"), borderColor: css("--line"), textStyle: { color: css("--ink"), fontSize: 12.5 } },
  };
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
