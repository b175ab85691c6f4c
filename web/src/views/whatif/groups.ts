// The blocks of "What if" in groups: a paragraph of the tone "key" heads each.

import type { Block, Words } from "../../core/document";

export interface Group { title: Words | null; blocks: Block[] }

/** Groups in order; blocks before the first heading form one without. */
export function groupsOf(blocks: readonly Block[]): Group[] {
  const found: Group[] = [];
  for (const block of blocks) {
    if (block.block === "paragraph" && block.tone === "key") found.push({ title: block.text, blocks: [] });
    else {
      if (!found.length) found.push({ title: null, blocks: [] });
      (found.at(-1) as Group).blocks.push(block);
    }
  }
  return found.filter((group) => group.blocks.length);
}
