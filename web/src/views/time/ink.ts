// Black or white, whichever can be read on a colour.

const known = new Map<string, string>();

/** The ink for text on a ground of "#rrggbb". */
export function contrastInk(ground: string): string {
  let ink = known.get(ground);
  if (ink === undefined) {
    // Contrast with black is (L + 0.05) / 0.05, with white 1.05 / (L + 0.05): equal at L = 0.179.
    ink = luminance(ground) > 0.179 ? "#000000" : "#ffffff";
    known.set(ground, ink);
  }
  return ink;
}

/** Relative luminance of "#rrggbb" (WCAG 2.2). */
export function luminance(colour: string): number {
  const part = (at: number) => {
    const v = parseInt(colour.slice(at, at + 2), 16) / 255;
    return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5);
}
