// Chinese for blocks.

export const BLOCKS: Readonly<Record<string, string>> = {
  "Claims about GPUs, checked": "关于 GPU 的说法，逐条检验",
};
