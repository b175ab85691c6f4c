// The view "What if": its panels in the order in which they stand.

import type { View } from "../../core/page";

export const view: View = {
  id: "whatif",
  title: "What if",
  about: "",
  panels: [],
};
