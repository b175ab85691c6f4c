// The views of a report, in the order in which they stand. A view is a folder here.

import type { View } from "../core/page";
import { view as advice } from "./advice";
import { view as resources } from "./resources";
import { view as story } from "./story";
import { view as tasks } from "./tasks";
import { view as time } from "./time";
import { view as whatif } from "./whatif";

export const VIEWS: readonly View[] = [story, advice, time, resources, tasks, whatif];
