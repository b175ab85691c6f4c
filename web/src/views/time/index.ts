// The view "Time": its panels in the order in which they stand.

import { text } from "../../core/language";
import type { View } from "../../core/page";
import { devicePanel } from "../resources/device";
import { smMapPanel } from "../resources/sm_map";
import { classesPanel, familiesPanel, phasesPanel } from "./breakdowns";
import { comparisonPanel } from "./comparison";
import { copiesPanel } from "./copies";
import { hostPanel } from "./host";
import { idlePanel } from "./idle";
import { launchesPanel } from "./launches";
import { pairPanel } from "./pair";
import { pathPanel } from "./path";
import { ranksPanel } from "./ranks";
import { stepsPanel } from "./steps";
import { stripPanel } from "./strip";
import { thenPanel } from "./then";
import { timelinePanel } from "./timeline";

export const view: View = {
  id: "time",
  title: text("Time"),
  about: text("Where a step's time goes, when everything happens, and what waits for what."),
  panels: [
    timelinePanel, devicePanel, smMapPanel, thenPanel, classesPanel, stripPanel, hostPanel, familiesPanel, phasesPanel, pairPanel, comparisonPanel, ranksPanel,
    pathPanel, idlePanel, launchesPanel, copiesPanel, stepsPanel,
  ],
};
