// Blocks of an explanation: one file draws one sort.

import type { Block } from "../core/document";
import { h } from "../core/dom";
import { said } from "../core/language";
import { paragraph } from "./paragraph";

type Draw = (block: never) => HTMLElement;

const SORTS: Partial<Record<Block["block"], Draw>> = { paragraph };

/** Draw a block; one that these sources do not know shows its title. */
export function drawBlock(block: Block): HTMLElement {
  const draw = SORTS[block.block] as ((block: Block) => HTMLElement) | undefined;
  return draw ? draw(block) : h("p", {}, "title" in block ? said(block.title) : "");
}
