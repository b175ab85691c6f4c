// One colour a kernel family, a time class and a role, on light and dark ground alike.

const OTHER = "#7d8795";

const FAMILIES: Record<string, string> = {
  matmul: "#3b76d9", attention: "#8b5cd6", convolution: "#5a67d8", normalization: "#0f9b8e",
  reduction: "#1aa3c4", pointwise: "#4aa657", gather: "#8aa82f", sort: "#a98b2c", copy: "#a37a5b",
  optimizer: "#d98a1f", recurrent: "#c2569b", transfer: "#c06a3a", collective: "#d6476b",
  memset: "#8d97a5", random: "#7a8f3a", fused: "#2f8f7a", other: OTHER,
  communication: "#d6476b", memcpy: "#c06a3a", kernel: "#3b76d9",
};
const CLASSES: Record<string, string> = {
  "compute-bound": "#3b76d9", "bandwidth-bound": "#9a5bd0", "instruction-bound": "#2f8f7a", "launch-bound": "#d98a1f",
  transfers: "#c06a3a", communication: "#d6476b", "communication: transfer": "#d6476b",
  "communication: waiting for another rank": "#e59bb0", "not classified": OTHER,
};
const ROLES: Record<string, string> = {
  compute: "#3b76d9", tensor: "#3b76d9", memory: "#9a5bd0", l2: "#1aa3c4", shared: "#0f9b8e", launch: "#d98a1f",
  communication: "#d6476b", copy: "#c06a3a", host: "#a98b2c", idle: "#a9b1bd", tail: "#e0a458", waste: "#d9776b",
  good: "#2f9e6e", bad: "#cf3f36", reference: "#6b7480", other: OTHER,
};
export const PHASES: Record<string, string> = { forward: "#3b76d9", backward: "#0f9b8e", optimizer: "#d98a1f", input: "#c06a3a", other: OTHER };
export const CATEGORIES: Record<string, string> = {
  parameter: "#3b76d9", gradient: "#0f9b8e", optimizer_state: "#d98a1f", activation: "#8b5cd6",
  temporary: "#1aa3c4", input: "#c06a3a", buffer: "#8aa82f", cache: "#c2569b", workspace: "#8d97a5",
  communication: "#d6476b", "made in backward": "#6cbcae",
};
export const HOST: Record<string, string> = { operator: "#9aa7b8", launch: "#d98a1f", sync: "#d6476b", module: "#b8a6d9", python: "#b9c08a", other: "#a5adb8" };
export const BRANCHES = ["#3b76d9", "#0f9b8e", "#8b5cd6", "#d98a1f", "#c2569b", "#1aa3c4", "#8aa82f", "#c06a3a"];

export const familyColour = (kind: string): string => FAMILIES[kind] ?? OTHER;
export const roleColour = (role: string): string => ROLES[role] ?? OTHER;

/** The colour of a time class; causes of idle time are shades of grey. */
export function classColour(label: string, index = 0): string {
  if (!label.startsWith("idle")) return CLASSES[label] ?? OTHER;
  return ["#c9ced7", "#b3bac5", "#9aa3b0", "#838d9b", "#6d7786"][index % 5] as string;
}
