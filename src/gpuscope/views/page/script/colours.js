// One colour a kernel family and a time class, on light and dark ground alike.

const FAMILY_COLOURS = {
  matmul: "#3b76d9", attention: "#8b5cd6", convolution: "#5a67d8", normalization: "#0f9b8e",
  reduction: "#1aa3c4", pointwise: "#4aa657", gather: "#8aa82f", sort: "#a98b2c", copy: "#a37a5b",
  optimizer: "#d98a1f", recurrent: "#c2569b", transfer: "#c06a3a", collective: "#d6476b",
  memset: "#8d97a5", random: "#7a8f3a", fused: "#2f8f7a", other: "#7d8795",
  communication: "#d6476b", memcpy: "#c06a3a", kernel: "#3b76d9",
};
const CLASS_COLOURS = {
  "compute-bound": "#3b76d9", "bandwidth-bound": "#9a5bd0", "instruction-bound": "#2f8f7a", "launch-bound": "#d98a1f",
  transfers: "#c06a3a", communication: "#d6476b", "communication: transfer": "#d6476b",
  "communication: waiting for another rank": "#e59bb0", "not classified": "#7d8795",
};
const PHASE_COLOURS = { forward: "#3b76d9", backward: "#0f9b8e", optimizer: "#d98a1f", input: "#c06a3a", other: "#7d8795" };
const CATEGORY_COLOURS = {
  parameter: "#3b76d9", gradient: "#0f9b8e", optimizer_state: "#d98a1f", activation: "#8b5cd6",
  temporary: "#1aa3c4", input: "#c06a3a", buffer: "#8aa82f", cache: "#c2569b", workspace: "#8d97a5",
  communication: "#d6476b",
};
const HOST_COLOURS = { operator: "#9aa7b8", launch: "#d98a1f", sync: "#d6476b", module: "#b8a6d9", python: "#b9c08a", other: "#a5adb8" };
const BRANCH_COLOURS = ["#3b76d9", "#0f9b8e", "#8b5cd6", "#d98a1f", "#c2569b", "#1aa3c4", "#8aa82f", "#c06a3a"];

const familyColour = (kind) => FAMILY_COLOURS[kind] ?? "#7d8795";

/** The colour of a time class; causes of idle time are shades of grey. */
function classColour(label, index = 0) {
  if (!label.startsWith("idle")) return CLASS_COLOURS[label] ?? "#7d8795";
  return `color-mix(in srgb, var(--idle) ${100 - (index % 5) * 14}%, var(--faint))`;
}
