// Figures with three significant digits and the unit that suits; the same rules as units.py.

const DECIMAL = [[1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];
const SMALL = [[1e-3, "m"], [1e-6, "µ"], [1e-9, "n"]];
const BINARY = [[2 ** 50, "PiB"], [2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];
const TIMES = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];

const missing = (value) => value === null || value === undefined || !Number.isFinite(value);

/** A number with three significant digits and thousands separated. */
function digits(value) {
  if (value === 0) return "0";
  const exponent = Math.floor(Math.log10(Math.abs(Number(value.toPrecision(3)))));
  const places = Math.max(0, 2 - exponent);
  return value.toLocaleString("en-US", { minimumFractionDigits: places, maximumFractionDigits: places });
}

function scaled(value, scales, suffix = "") {
  if (missing(value)) return t("not available");
  const one = scales.find(([scale]) => scale === 1) ?? scales[0];
  if (value === 0) return `0 ${one[1]}${suffix}`.trim();
  const [scale, unit] = scales.find(([s]) => Math.abs(Number((value / s).toPrecision(3))) >= 1) ?? scales.at(-1);
  const amount = value / scale;
  const whole = scale === 1 && Number.isInteger(amount) && Math.abs(amount) < 1e4;
  return `${whole ? amount.toLocaleString("en-US") : digits(amount)} ${unit}${suffix}`.trim();
}

const time = (s) => scaled(s, TIMES);
const size = (bytes) => scaled(bytes, BINARY);
const byteRate = (rate) => scaled(rate, DECIMAL, "B/s");
const flops = (amount) => scaled(amount, DECIMAL, "FLOP");
const flopRate = (rate) => scaled(rate, DECIMAL, "FLOP/s");
const energy = (j) => scaled(j, [...DECIMAL, ...SMALL], "J");
const power = (w) => scaled(w, DECIMAL, "W");
const ratio = (value) => (missing(value) ? t("not available") : `${digits(value)}×`);

function count(value) {
  if (!missing(value) && value >= 1000 && value < 100000) return Math.round(value).toLocaleString("en-US");
  return scaled(value, DECIMAL);
}

function percent(share) {
  if (missing(share)) return t("not available");
  const value = share * 100;
  if (value > 0 && value < 0.1) return "< 0.1 %";
  return `${Math.abs(value) < 99.95 ? value.toFixed(1) : value.toFixed(0)} %`;
}

function money(usd) {
  if (missing(usd)) return t("not available");
  return usd >= 1000 ? `$${Math.round(usd).toLocaleString("en-US")}` : `$${digits(usd)}`;
}

/** Round steps for an axis of about `n` labels. */
function ticks(low, high, n) {
  const raw = (high - low) / Math.max(1, n);
  const base = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * base).find((s) => s >= raw);
  const found = [];
  for (let v = Math.ceil(low / step) * step; v <= high + step * 1e-9; v += step) found.push(v);
  return found;
}
