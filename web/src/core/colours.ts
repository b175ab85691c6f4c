// One colour a meaning, on light and dark ground alike, the same as in terminal, pictures and notebook.

import palette from "../../../src/gpuscope/document/palette.json";

const roles: Record<string, string> = palette.roles;
/** Colours of a sort of names: of each the colour of its role, or its own. */
const colours = (sort: Record<string, string>): Record<string, string> => Object.fromEntries(Object.entries(sort).map(([name, role]) => [name, roles[role] ?? role]));

export const OTHER = palette.roles.other;
const families = colours(palette.families), classes = colours(palette.classes);
export const PHASES = colours(palette.phases);
export const CATEGORIES = colours(palette.memory);
export const HOST = colours(palette.host);
/** Why a device was idle. */
export const CAUSES = colours(palette.causes);
export const BRANCHES = ["#3b76d9", "#0f9b8e", "#8b5cd6", "#d98a1f", "#c2569b", "#1aa3c4", "#8aa82f", "#c06a3a"];

const IDLE_SHADES = ["#c9ced7", "#b3bac5", "#9aa3b0", "#838d9b", "#6d7786"];

export const familyColour = (kind: string): string => families[kind] ?? OTHER;
export const roleColour = (role: string): string => roles[role] ?? OTHER;

/** The colour of a time class; causes of idle time are shades of grey. */
export function classColour(label: string, index = 0): string {
  if (!label.startsWith("idle")) return classes[label] ?? OTHER;
  return IDLE_SHADES[index % IDLE_SHADES.length] as string;
}
