// The view "Tasks": its panels in the order in which they stand.

import type { View } from "../../core/page";

export const view: View = {
  id: "tasks",
  title: "Tasks",
  about: "",
  panels: [],
};
