// How a running kernel's blocks fill the device, kept by kernel group.

import type { Model } from "../core/model";
import { type KernelGroup, kernelGroups, splitOf } from "../views/tasks/groups";
import type { Filling } from "../views/tasks/waves";

const groups = new WeakMap<Model, Map<string, KernelGroup>>();
const fillings = new WeakMap<KernelGroup, Filling | null>();

/** How an event's blocks fill the device; null where grid or waves are not known. */
export function fillingOf(model: Model, event: number): Filling | null {
  const known = groups.get(model) ?? new Map(kernelGroups(model).map((group) => [group.key, group]));
  groups.set(model, known);
  const group = known.get(model.groups[model.groupOf[event] as number] ?? "");
  if (!group) return null;
  const found = fillings.get(group);
  if (found !== undefined) return found;
  const made = splitOf(model.run, group).found;
  fillings.set(group, made);
  return made;
}
