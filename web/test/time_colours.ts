// Colours that names are written on in the timeline.

import { HOST, familyColour } from "../src/core/colours";

const FAMILIES = ["matmul", "attention", "convolution", "normalization", "reduction", "pointwise", "gather", "sort", "copy", "optimizer",
  "recurrent", "transfer", "collective", "memset", "random", "fused", "other", "kernel"];

export const FAMILY_COLOURS = [...FAMILIES.map(familyColour), ...Object.values(HOST)];
