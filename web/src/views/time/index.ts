// The view "Time": its panels in the order in which they stand.

import type { View } from "../../core/page";

export const view: View = {
  id: "time",
  title: "Time",
  about: "",
  panels: [],
};
