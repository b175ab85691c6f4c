// Chinese for the page's own texts, one table an area. The key is the English text.

import { BLOCKS } from "./zh_blocks";
import { FRAME } from "./zh_frame";
import { RESOURCES } from "./zh_resources";
import { STORY } from "./zh_story";
import { TASKS } from "./zh_tasks";
import { TIME } from "./zh_time";

export const CHINESE: Readonly<Record<string, string>> = { ...FRAME, ...STORY, ...TIME, ...RESOURCES, ...TASKS, ...BLOCKS };
