// Names of kernels as they are read: without the noise of C++ around them.

import { operatorLabel } from "../../core/language";

const LONGEST = 120;
/** What a template was made for: the first such name among its arguments, the most telling pattern first. */
const PURPOSES = [/\bbinary_internal::(\w+)/, /\b(MeanOps|\w+_functor)\b/, /\b((?:cutlass|launch)_\w+|CUDAFunctor\w*|[A-Za-z]\w*(?:Functor(?:_\w+)?|Ops?|KernelImpl|_kernel_cuda|_cuda_kernel|_kernel_impl|_kernel))\b/];

/**
 * An event's name for a bar or a table: of a C++ symbol the function and what its template was made for, without
 * return type, namespaces and parameters; other names as they are.
 */
export function shortName(name: string): string {
  if (/^[A-Za-z]\w+\([A-Za-z].*\)$/.test(name) && !name.startsWith("Mem")) return name.slice(0, name.indexOf("("));
  if (!name.startsWith("void ")) return operatorLabel(name);
  const plain = name.slice(5).replaceAll("(anonymous namespace)::", ""), at = plain.search(/[<(]/);
  const base = (at > 0 ? plain.slice(0, at) : plain).split("::").pop() ?? plain, purpose = at > 0 ? purposeOf(plain.slice(at)) : undefined;
  return purpose && purpose !== base ? `${base} · ${purpose}` : base;
}

function purposeOf(rest: string): string | undefined {
  for (const pattern of PURPOSES) {
    const found = pattern.exec(rest);
    if (found) return found[1];
  }
  return undefined;
}

/** A name that fits a tooltip. */
export const cutName = (name: string): string => (name.length > LONGEST ? `${name.slice(0, LONGEST - 1)}…` : name);
