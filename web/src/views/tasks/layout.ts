// Where parts of a whole are drawn: nested rectangles (treemap) and rows of shares (icicle).

/** What is laid out: something with children. */
export interface Tree<T> { children: T[] }

export interface Rect { x: number; y: number; width: number; height: number }

export interface Cell<T> extends Rect {
  part: T;
  /** 0 for the outermost. */
  level: number;
  /** Whether its children are drawn inside or below it. */
  open: boolean;
}

/**
 * Rectangles whose areas are as the values, as square as possible, in the order of the values
 * (Bruls, Huizing, van Wijk: Squarified Treemaps, 2000). Values that are not positive get no area.
 */
export function squarify(values: readonly number[], into: Rect): Rect[] {
  const order = values.map((_, i) => i).filter((i) => (values[i] as number) > 0).sort((a, b) => (values[b] as number) - (values[a] as number));
  const total = order.reduce((sum, i) => sum + (values[i] as number), 0);
  const found: Rect[] = values.map(() => ({ x: into.x, y: into.y, width: 0, height: 0 }));
  const scale = total > 0 ? (into.width * into.height) / total : 0;
  const free = { ...into };
  for (let at = 0; at < order.length; ) {
    const side = Math.min(free.width, free.height);
    if (!(side > 0)) break;
    let end = at + 1;
    const areas = [(values[order[at] as number] as number) * scale];
    while (end < order.length) {
      const next = [...areas, (values[order[end] as number] as number) * scale];
      if (worst(next, side) > worst(areas, side)) break;
      areas.push(next.at(-1) as number);
      end += 1;
    }
    place(areas, order.slice(at, end), free, found);
    at = end;
  }
  return found;
}

/** The worst ratio of sides in a row of areas along a side. */
function worst(areas: readonly number[], side: number): number {
  const sum = areas.reduce((a, b) => a + b, 0);
  const thick = sum / side;
  return Math.max(...areas.map((area) => Math.max(thick / (area / thick), area / thick / thick)));
}

function place(areas: readonly number[], items: readonly number[], free: Rect, found: Rect[]): void {
  const sum = areas.reduce((a, b) => a + b, 0);
  const upright = free.width >= free.height;
  const thick = sum / (upright ? free.height : free.width);
  let along = upright ? free.y : free.x;
  items.forEach((item, i) => {
    const long = (areas[i] as number) / thick;
    found[item] = upright ? { x: free.x, y: along, width: thick, height: long } : { x: along, y: free.y, width: long, height: thick };
    along += long;
  });
  if (upright) {
    free.x += thick;
    free.width = Math.max(0, free.width - thick);
  } else {
    free.y += thick;
    free.height = Math.max(0, free.height - thick);
  }
}

export interface TreemapOptions {
  /** Height of the strip that holds an open part's name. */
  head: number;
  /** Space between an open part's edge and what is in it. */
  gap: number;
  /** Smallest side of a part that is opened, and of one that is drawn at all. */
  openSide: number;
  least: number;
}

const TREEMAP: TreemapOptions = { head: 19, gap: 3, openSide: 46, least: 2 };

/** Parts inside parts; outer ones come first. */
export function treemap<T extends Tree<T>>(root: T, value: (part: T) => number, into: Rect, options: Partial<TreemapOptions> = {}): Cell<T>[] {
  const how = { ...TREEMAP, ...options };
  const cells: Cell<T>[] = [];
  const visit = (part: T, rect: Rect, level: number): void => {
    if (rect.width < how.least || rect.height < how.least) return;
    const inside = { x: rect.x + how.gap, y: rect.y + how.head, width: rect.width - 2 * how.gap, height: rect.height - how.head - how.gap };
    const values = part.children.map(value);
    const open = values.some((v) => v > 0) && rect.width >= how.openSide && inside.height >= how.openSide / 2;
    cells.push({ part, level, open, ...rect });
    if (open) squarify(values, inside).forEach((box, i) => visit(part.children[i] as T, box, level + 1));
  };
  visit(root, into, 0);
  return cells;
}

/** Parts below parts: width is the share of the whole, each level lies under the one above. */
export function icicle<T extends Tree<T>>(root: T, value: (part: T) => number, width: number, row: number, least = 2): Cell<T>[] {
  const cells: Cell<T>[] = [];
  const visit = (part: T, x: number, wide: number, level: number): void => {
    if (wide < least) return;
    // Children that together are more than their parent (shared parameters) share its width.
    const sum = Math.max(value(part), part.children.reduce((all, child) => all + value(child), 0));
    cells.push({ part, level, open: part.children.length > 0, x, y: level * row, width: wide, height: row });
    let at = x;
    for (const child of part.children) {
      const own = sum > 0 ? (value(child) / sum) * wide : 0;
      visit(child, at, own, level + 1);
      at += own;
    }
  };
  visit(root, 0, width, 0);
  return cells;
}
