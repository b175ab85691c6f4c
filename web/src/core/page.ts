// What a view is given, and what a view is: one small folder each under views/.

import type { Cursor } from "./cursor";
import type { Child } from "./dom";
import type { Report, Run } from "./document";
import type { Model } from "./model";
import type { Selections } from "./selection";

/** The report as it is shown now. */
export interface ReportPage {
  report: Report;
  /** Which run is shown. */
  index: number;
  run: Run;
  model: Model;
  selections: Selections;
  /** The moment that is looked at; null where nothing happens in time. */
  cursor: Cursor | null;
  /** Show another run. */
  chooseRun(index: number): void;
  /** Choose and bring a panel into view ("timeline", "roofline", ...). */
  show(panelId: string): void;
}

/** One of the page's views: a title and the panels under it; null for what has no data. */
export interface View {
  id: string;
  title: string;
  about: string;
  panels: ((page: ReportPage) => HTMLElement | null)[];
}

export type { Child };
