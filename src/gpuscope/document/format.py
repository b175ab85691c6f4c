"""The one formatter: figures as people read them, three significant digits and the unit that suits.

The page follows the same rules in TypeScript (`web/src/core/format.ts`); both are held to the cases
of `tests/document/format_cases.json`. A reading that is missing (None, NaN) is "not available".

Units of values: "s", "bytes", "bytes/s", "flop", "flop/s", "flop/byte", "share" (0..1, per cent
with one decimal), "percent" (0..1, whole per cents, for sentences), "ratio" (shown as 1.5×),
"count", "Hz", "W", "J", "usd", "" (a plain number). Any other unit stands behind the number as it
is ("tokens/s"); with a "~" before it takes a decimal prefix ("~bit/s").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from gpuscope.document.language import translated

_DECIMAL = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_BINARY = ((2**50, "PiB"), (2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_SMALL = ((1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))

_PLAIN_BELOW = 100_000
"""Whole numbers without a unit (a matrix's side) get no separators below this."""

_MOST_PLACES = 20
"""Places behind the point at most, as browsers have it."""

Format = Callable[[float | None, str], str]


def time(value_s: float | None, lang: str = "en") -> str:
    """Return "12.3 ms"; seconds above a minute stay seconds."""
    return _scaled(value_s, _TIMES, lang)


def size(nbytes: float | None, lang: str = "en") -> str:
    """Return "21.4 GiB", in powers of two, as PyTorch reports memory."""
    return _scaled(nbytes, _BINARY, lang)


def decimal(value: float | None, unit: str, lang: str = "en") -> str:
    """Return "4.80 TB/s": a decimal prefix before any unit."""
    return _scaled(value, tuple((scale, f"{p}{unit}") for scale, p in _DECIMAL), lang)


def byte_rate(bytes_per_s: float | None, lang: str = "en") -> str:
    """Return "4.80 TB/s", in powers of ten, as datasheets state it."""
    return decimal(bytes_per_s, "B/s", lang)


def flops(count: float | None, lang: str = "en") -> str:
    """Return "5.98 TFLOP", an amount of arithmetic."""
    return decimal(count, "FLOP", lang)


def flop_rate(flops_per_s: float | None, lang: str = "en") -> str:
    """Return "989 TFLOP/s"."""
    return decimal(flops_per_s, "FLOP/s", lang)


def energy(value_j: float | None, lang: str = "en") -> str:
    """Return "28.1 J" or "310 mJ"."""
    return _scaled(value_j, tuple((scale, f"{p}J") for scale, p in (*_DECIMAL, *_SMALL)), lang)


def power(value_w: float | None, lang: str = "en") -> str:
    """Return "578 W"."""
    return decimal(value_w, "W", lang)


def frequency(value_hz: float | None, lang: str = "en") -> str:
    """Return "1.98 GHz"."""
    return decimal(value_hz, "Hz", lang)


def intensity(value: float | None, lang: str = "en") -> str:
    """Return "295 FLOP/B", arithmetic per byte moved."""
    return _absent(lang) if _missing(value) else f"{digits(value or 0.0)} FLOP/B"


def count(value: float | None, lang: str = "en") -> str:
    """Return "8,192" below a hundred thousand, "157 k" or "1.24 G" above; fractions to 3 digits."""
    if value is not None and 999.5 <= abs(value) < 99_999.5:
        return f"{value:,.0f}"
    return _scaled(value, _DECIMAL, lang).strip()


def share(value: float | None, lang: str = "en") -> str:
    """Return "38.2 %" of a share of 0.382; "< 0.1 %" where rounding would show nothing."""
    if _missing(value):
        return _absent(lang)
    per_cent = (value or 0.0) * 100
    if 0 < abs(per_cent) < 0.1:
        return "< 0.1 %" if per_cent > 0 else "> -0.1 %"
    return f"{per_cent:.1f} %" if abs(per_cent) < 99.95 else f"{per_cent:.0f} %"


def percent(value: float | None, lang: str = "en") -> str:
    """Return "38 %" of a share of 0.382, "4.2 %" below ten per cent, "< 0.01 %" below that."""
    if _missing(value):
        return _absent(lang)
    per_cent = (value or 0.0) * 100
    if 0 < abs(per_cent) < 0.00995:
        return "< 0.01 %" if per_cent > 0 else "> -0.01 %"
    whole = abs(per_cent) >= 9.95 or per_cent == 0
    return f"{per_cent:.0f} %" if whole else f"{per_cent:.2g} %"


def ratio(value: float | None, lang: str = "en") -> str:
    """Return "1.45×"."""
    return _absent(lang) if _missing(value) else f"{digits(value or 0.0)}×"


def money(value_usd: float | None, lang: str = "en") -> str:
    """Return "$0.213" or "$1,234"."""
    if _missing(value_usd):
        return _absent(lang)
    value = abs(value_usd or 0.0)
    sign = "-" if (value_usd or 0.0) < 0 else ""
    return f"{sign}${f'{value:,.0f}' if value >= 1000 else digits(value)}"


def digits(value: float) -> str:
    """Return a number with three significant digits, never in exponent form."""
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(abs(_rounded(value))))
    return f"{value:,.{min(_MOST_PLACES, max(0, 2 - exponent))}f}"


def number(value: float | None, lang: str = "en") -> str:
    """Return a number without a unit: whole ones in full, others with three digits."""
    if value is None or not math.isfinite(value):
        return _absent(lang)
    if value != int(value) and abs(value) < _PLAIN_BELOW:
        return digits(value)
    return f"{value:.0f}" if abs(value) < _PLAIN_BELOW else f"{value:,.0f}"


FORMATS: Mapping[str, Format] = {
    "s": time,
    "bytes": size,
    "bytes/s": byte_rate,
    "flop": flops,
    "flop/s": flop_rate,
    "flop/byte": intensity,
    "share": share,
    "percent": percent,
    "ratio": ratio,
    "count": count,
    "Hz": frequency,
    "W": power,
    "J": energy,
    "usd": money,
    "": number,
}
"""How each unit is written."""


def quantity(value: float | None, unit: str = "", lang: str = "en") -> str:
    """Return a value in one of the module's units, or in any other."""
    if unit in FORMATS:
        return FORMATS[unit](value, lang)
    if unit.startswith("~"):
        return decimal(value, unit[1:], lang)
    text = number(value, lang)
    return text if _missing(value) else f"{text} {unit}"


def _absent(lang: str) -> str:
    return translated("not available", lang)


def _missing(value: float | None) -> bool:
    return value is None or not math.isfinite(value)


def _scaled(value: float | None, scales: tuple[tuple[float, str], ...], lang: str) -> str:
    if value is None or not math.isfinite(value):
        return _absent(lang)
    if value == 0:
        one = next((unit for scale, unit in scales if scale == 1), scales[0][1])
        return f"0 {one}".strip()
    # 999.7 ms rounds to 1000 ms: that is 1.00 s.
    taken = next((each for each in scales if abs(_rounded(value / each[0])) >= 1), scales[-1])
    return _exact(value, *taken)


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


def _exact(value: float, scale: float, unit: str) -> str:
    scaled = value / scale
    whole = scale == 1 and scaled == int(scaled) and abs(scaled) < 1e4
    return f"{f'{scaled:,.0f}' if whole else digits(scaled)} {unit}".strip()
