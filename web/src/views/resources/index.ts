// The view "Resources": its panels in the order in which they stand.

import { text } from "../../core/language";
import type { View } from "../../core/page";
import { blockMapPanel } from "./block_map";
import { smallPanels } from "./energy";
import { memoryPanel } from "./memory";
import { rooflinePanel } from "./roofline";

export const view: View = {
  id: "resources",
  title: text("Resources"),
  about: text("What the parts of the machine did, against what they could do."),
  panels: [rooflinePanel, memoryPanel, blockMapPanel, smallPanels],
};
