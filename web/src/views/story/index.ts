// The view "Story": the few sentences that matter, and what to change first.

import { text } from "../../core/language";
import type { View } from "../../core/page";
import { accountPanel } from "./account";
import { findingsPanel } from "./findings";
import { jobPanel } from "./job";
import { notesPanel } from "./notes";
import { printedPanel } from "./printed";
import { sentencesPanel } from "./sentences";
import { sideBySidePanel } from "./side_by_side";
import { trustPanel } from "./trust";

export const view: View = {
  id: "story",
  title: text("Story"),
  about: "",
  panels: [sideBySidePanel, trustPanel, sentencesPanel, printedPanel, jobPanel, accountPanel, findingsPanel, notesPanel],
};
