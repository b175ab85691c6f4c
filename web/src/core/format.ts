// Figures with three significant digits and the unit that suits; the same rules as views/units.py.

import { t } from "./language";
import type { Cell } from "./document";
import { said } from "./language";

type Scale = [number, string];

const DECIMAL: Scale[] = [[1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];
const SMALL: Scale[] = [[1e-3, "m"], [1e-6, "µ"], [1e-9, "n"]];
const BINARY: Scale[] = [[2 ** 50, "PiB"], [2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];
const TIMES: Scale[] = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];

type Maybe = number | null | undefined;

export const missing = (value: Maybe): value is null | undefined => value === null || value === undefined || !Number.isFinite(value);

/** A number with three significant digits and thousands separated. */
export function digits(value: number): string {
  if (value === 0) return "0";
  const exponent = Math.floor(Math.log10(Math.abs(Number(value.toPrecision(3)))));
  const places = Math.min(20, Math.max(0, 2 - exponent));
  return value.toLocaleString("en-US", { minimumFractionDigits: places, maximumFractionDigits: places });
}

function scaled(value: Maybe, scales: Scale[], suffix = ""): string {
  if (missing(value)) return t("not available");
  const one = scales.find(([scale]) => scale === 1) ?? (scales[0] as Scale);
  if (value === 0) return `0 ${one[1]}${suffix}`.trim();
  const [scale, unit] = scales.find(([s]) => Math.abs(Number((value / s).toPrecision(3))) >= 1) ?? (scales.at(-1) as Scale);
  const amount = value / scale;
  const whole = scale === 1 && Number.isInteger(amount) && Math.abs(amount) < 1e4;
  return `${whole ? amount.toLocaleString("en-US") : digits(amount)} ${unit}${suffix}`.trim();
}

export const time = (s: Maybe): string => scaled(s, TIMES);
export const size = (bytes: Maybe): string => scaled(bytes, BINARY);
export const byteRate = (rate: Maybe): string => scaled(rate, DECIMAL, "B/s");
export const flops = (n: Maybe): string => scaled(n, DECIMAL, "FLOP");
export const flopRate = (rate: Maybe): string => scaled(rate, DECIMAL, "FLOP/s");
export const energy = (j: Maybe): string => scaled(j, [...DECIMAL.slice(0, -1), [1, ""], ...SMALL], "J");
export const power = (w: Maybe): string => scaled(w, DECIMAL, "W");
export const hertz = (f: Maybe): string => scaled(f, DECIMAL, "Hz");
export const ratio = (value: Maybe): string => (missing(value) ? t("not available") : `${digits(value)}×`);

export function count(value: Maybe): string {
  if (!missing(value) && value >= 1000 && value < 100000) return Math.round(value).toLocaleString("en-US");
  return scaled(value, DECIMAL);
}

export function percent(share: Maybe): string {
  if (missing(share)) return t("not available");
  const value = share * 100;
  if (value > 0 && value < 0.1) return "< 0.1 %";
  return `${Math.abs(value) < 99.95 ? value.toFixed(1) : value.toFixed(0)} %`;
}

export function money(usd: Maybe): string {
  if (missing(usd)) return t("not available");
  return usd >= 1000 ? `$${Math.round(usd).toLocaleString("en-US")}` : `$${digits(usd)}`;
}

const QUANTITIES: Record<string, (value: Maybe) => string> = {
  s: time, bytes: size, "bytes/s": byteRate, flop: flops, "flop/s": flopRate, share: percent, ratio,
  count, Hz: hertz, W: power, J: energy, usd: money,
  "flop/byte": (value) => (missing(value) ? t("not available") : `${digits(value)} FLOP/B`),
};

/** A number in one of the units of an explanation (gpuscope.explain.types). */
export function quantity(value: Maybe, unit: string): string {
  const shown = QUANTITIES[unit];
  if (shown) return shown(value);
  if (missing(value)) return t("not available");
  const text = Number.isInteger(value) && Math.abs(value) < 1e15 ? value.toLocaleString("en-US", { useGrouping: Math.abs(value) >= 1e4 }) : digits(value);
  return unit ? `${text} ${unit}` : text;
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
