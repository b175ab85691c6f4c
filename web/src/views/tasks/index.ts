// The view "Tasks": its panels in the order in which they stand.

import { text } from "../../core/language";
import type { View } from "../../core/page";
import { kernelPanel } from "./kernel";
import { kernelsPanel } from "./kernels";
import { meshPanel } from "./mesh";
import { modulesPanel } from "./modules";
import { operatorsPanel } from "./operators";
import { pipelinePanel } from "./pipeline";
import { symbolsPanel } from "./symbols";

export const view: View = {
  id: "tasks",
  title: text("Tasks"),
  about: text("How the work is split: from the model to its operators, to kernels, to thread blocks on the device, and over the ranks."),
  panels: [modulesPanel, operatorsPanel, kernelsPanel, kernelPanel, symbolsPanel, meshPanel, pipelinePanel],
};
