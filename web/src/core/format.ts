// The one formatter's twin: three significant digits and the unit that suits; the same rules as
// src/gpuscope/document/format.py. Both are held to tests/document/format_cases.json.

import { t } from "./language";
import type { Cell } from "./document";
import { said } from "./language";

type Scale = [number, string];

const DECIMAL: Scale[] = [[1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];
const SMALL: Scale[] = [[1e-3, "m"], [1e-6, "µ"], [1e-9, "n"]];
const BINARY: Scale[] = [[2 ** 50, "PiB"], [2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];
const TIMES: Scale[] = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];

/** Whole numbers without a unit (a matrix's side) get no separators below this. */
const PLAIN_BELOW = 100_000;

type Maybe = number | null | undefined;

export const missing = (value: Maybe): value is null | undefined => value === null || value === undefined || !Number.isFinite(value);

const writers = new Map<string, Intl.NumberFormat>();

/** Decimals that hold what a tie needs: 0.15 is a little less than that, and no tie. */
const EXACT = 60;

/** As in Python: of what the number really is, not of its shortest name; ties go to the even digit. */
function written(value: number, key: string, options: Intl.NumberFormatOptions): string {
  const known = writers.get(key) ?? new Intl.NumberFormat("en-US", { ...options, roundingMode: "halfEven" } as Intl.NumberFormatOptions);
  writers.set(key, known);
  return known.format(value.toFixed(EXACT) as Intl.StringNumericLiteral);
}

/** A number with so many places, thousands separated unless told otherwise. */
export const fixed = (value: number, places = 0, useGrouping = true): string =>
  written(value, `${places}${useGrouping}`, { minimumFractionDigits: places, maximumFractionDigits: places, useGrouping });

const rounded = (value: number): number => Number(value.toPrecision(3));

/** A number with three significant digits and thousands separated. */
export function digits(value: number): string {
  if (value === 0) return "0";
  const exponent = Math.floor(Math.log10(Math.abs(rounded(value))));
  return fixed(value, Math.min(20, Math.max(0, 2 - exponent)));
}

function scaled(value: Maybe, scales: Scale[], suffix = ""): string {
  if (missing(value)) return t("not available");
  const one = scales.find(([scale]) => scale === 1) ?? (scales[0] as Scale);
  if (value === 0) return `0 ${one[1]}${suffix}`.trim();
  // 999.7 ms rounds to 1000 ms: that is 1.00 s.
  const [scale, unit] = scales.find(([s]) => Math.abs(rounded(value / s)) >= 1) ?? (scales.at(-1) as Scale);
  const amount = value / scale;
  const whole = scale === 1 && Number.isInteger(amount) && Math.abs(amount) < 1e4;
  return `${whole ? fixed(amount) : digits(amount)} ${unit}${suffix}`.trim();
}

const shown = (value: Maybe, how: (value: number) => string): string => (missing(value) ? t("not available") : how(value));

export const time = (s: Maybe): string => scaled(s, TIMES);
export const size = (bytes: Maybe): string => scaled(bytes, BINARY);
export const byteRate = (rate: Maybe): string => scaled(rate, DECIMAL, "B/s");
export const flops = (n: Maybe): string => scaled(n, DECIMAL, "FLOP");
export const flopRate = (rate: Maybe): string => scaled(rate, DECIMAL, "FLOP/s");
export const energy = (j: Maybe): string => scaled(j, [...DECIMAL, ...SMALL], "J");
export const power = (w: Maybe): string => scaled(w, DECIMAL, "W");
export const hertz = (f: Maybe): string => scaled(f, DECIMAL, "Hz");
export const ratio = (value: Maybe): string => shown(value, (v) => `${digits(v)}×`);

export function count(value: Maybe): string {
  if (!missing(value) && Math.abs(value) >= 999.5 && Math.abs(value) < 99_999.5) return fixed(value);
  return scaled(value, DECIMAL);
}

/** A share (0..1) to a tenth of a per cent. */
export const percent = (value: Maybe): string => shown(value, (v) => {
  const perCent = v * 100, size = Math.abs(perCent);
  if (size > 0 && size < 0.1) return v > 0 ? "< 0.1 %" : "> -0.1 %";
  return `${fixed(perCent, size < 99.95 ? 1 : 0, false)} %`;
});

/** A share (0..1) in whole per cents; two digits below ten. */
export const wholePercent = (value: Maybe): string => shown(value, (v) => {
  const perCent = v * 100, size = Math.abs(perCent);
  if (size > 0 && size < 0.00995) return v > 0 ? "< 0.01 %" : "> -0.01 %";
  if (size >= 9.95 || size === 0) return `${fixed(perCent, 0, false)} %`;
  return `${written(perCent, "two", { maximumSignificantDigits: 2 })} %`;
});

export const money = (usd: Maybe): string => shown(usd, (v) => {
  const size = Math.abs(v);
  return `${v < 0 ? "-" : ""}$${size >= 1000 ? fixed(size) : digits(size)}`;
});

function plain(value: number): string {
  const small = Math.abs(value) < PLAIN_BELOW;
  return small && !Number.isInteger(value) ? digits(value) : fixed(value, 0, !small);
}

const QUANTITIES: Record<string, (value: Maybe) => string> = {
  s: time, bytes: size, "bytes/s": byteRate, flop: flops, "flop/s": flopRate, share: percent, percent: wholePercent, ratio,
  count, Hz: hertz, W: power, J: energy, usd: money,
  "flop/byte": (value) => shown(value, (v) => `${digits(v)} FLOP/B`),
};

/** A number in one of the units of an explanation (gpuscope.document.format). */
export function quantity(value: Maybe, unit: string): string {
  const known = QUANTITIES[unit];
  if (known) return known(value);
  if (unit.startsWith("~")) return scaled(value, DECIMAL, unit.slice(1));
  return shown(value, (v) => (unit ? `${plain(v)} ${unit}` : plain(v)));
}

/** A cell of a table: a number in its column's unit, a name, or words. */
export function cell(value: Cell, unit = ""): string {
  if (value === null || value === undefined) return t("not available");
  if (typeof value === "number") return quantity(value, unit);
  return typeof value === "string" ? value : said(value);
}

/** Round steps for an axis of about `n` labels. */
export function ticks(low: number, high: number, n: number): number[] {
  const raw = (high - low) / Math.max(1, n);
  if (!(raw > 0)) return [low];
  const base = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * base).find((s) => s >= raw) as number;
  const found: number[] = [];
  for (let v = Math.ceil(low / step) * step; v <= high + step * 1e-9; v += step) found.push(v);
  return found;
}
