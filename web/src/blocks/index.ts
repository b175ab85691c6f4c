// Blocks of an explanation: one file draws one sort.

import type { Block } from "../core/document";
import { h } from "../core/dom";
import { said } from "../core/language";
import { bars } from "./bars";
import { code } from "./code";
import { diagram } from "./diagram";
import { explorer } from "./explorer";
import { facts } from "./facts";
import { heatmap } from "./heatmap";
import { lines } from "./lines";
import { paragraph } from "./paragraph";
import { tableBlock } from "./table";

type Sorts = { [Name in Block["block"]]: (block: Extract<Block, { block: Name }>) => HTMLElement };

const SORTS: Sorts = { paragraph, facts, table: tableBlock, bars, lines, heatmap, diagram, code, explorer };

/** Draw a block; of a sort that these sources do not know, its title. */
export function drawBlock(block: Block): HTMLElement {
  const draw = SORTS[block.block] as ((block: Block) => HTMLElement) | undefined;
  return draw ? draw(block) : h("p", {}, "title" in block ? said(block.title) : "");
}
