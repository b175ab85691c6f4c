// The view "Story": its panels in the order in which they stand.

import type { View } from "../../core/page";

export const view: View = {
  id: "story",
  title: "Story",
  about: "",
  panels: [],
};
