// A few sentences; the tone sets them off.

import type { ParagraphBlock } from "../core/document";
import { h } from "../core/dom";
import { said } from "../core/language";

export const paragraph = (block: ParagraphBlock): HTMLElement => h("p", { class: `tone-${block.tone}` }, said(block.text));
