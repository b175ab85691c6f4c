// The view "Resources": its panels in the order in which they stand.

import type { View } from "../../core/page";

export const view: View = {
  id: "resources",
  title: "Resources",
  about: "",
  panels: [],
};
