"""Figures as people read them: three significant digits and the unit that suits the size.

Every function takes None for a reading that is missing and then returns "not available".
"""

from __future__ import annotations

import math
from collections.abc import Callable

from gpuscope.views.i18n import tr

_DECIMAL = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_BINARY = ((2**50, "PiB"), (2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_SMALL = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))

Format = Callable[[float | None, str], str]


def time(value_s: float | None, lang: str = "en") -> str:
    """Return "12.3 ms"; seconds above a minute stay seconds."""
    return _scaled(value_s, _TIMES, lang)


def size(nbytes: float | None, lang: str = "en") -> str:
    """Return "21.4 GiB", in powers of two, as PyTorch reports memory."""
    return _scaled(nbytes, _BINARY, lang)


def byte_rate(bytes_per_s: float | None, lang: str = "en") -> str:
    """Return "4.80 TB/s", in powers of ten, as datasheets state it."""
    return _scaled(bytes_per_s, tuple((scale, f"{p}B/s") for scale, p in _DECIMAL), lang)


def flops(count: float | None, lang: str = "en") -> str:
    """Return "5.98 TFLOP", an amount of arithmetic."""
    return _scaled(count, tuple((scale, f"{p}FLOP") for scale, p in _DECIMAL), lang)


def flop_rate(flops_per_s: float | None, lang: str = "en") -> str:
    """Return "989 TFLOP/s"."""
    return _scaled(flops_per_s, tuple((scale, f"{p}FLOP/s") for scale, p in _DECIMAL), lang)


def energy(value_j: float | None, lang: str = "en") -> str:
    """Return "28.1 J" or "310 mJ"."""
    scales = tuple((scale, f"{p}J") for scale, p in (*_DECIMAL[:-1], *_SMALL))
    return _scaled(value_j, scales, lang)


def power(value_w: float | None, lang: str = "en") -> str:
    """Return "578 W"."""
    return _scaled(value_w, tuple((scale, f"{p}W") for scale, p in _DECIMAL), lang)


def frequency(value_hz: float | None, lang: str = "en") -> str:
    """Return "1.98 GHz"."""
    return _scaled(value_hz, tuple((scale, f"{p}Hz") for scale, p in _DECIMAL), lang)


def count(value: float | None, lang: str = "en") -> str:
    """Return "8,192" below a hundred thousand, "157 k" or "1.24 G" above; fractions to 3 digits."""
    if value is not None and 1000 <= value < 100_000:
        return f"{value:,.0f}"
    return _scaled(value, _DECIMAL, lang).strip()


def percent(share: float | None, lang: str = "en") -> str:
    """Return "38.2 %" of a share of 0.382; "< 0.1 %" where rounding would show nothing."""
    if _missing(share):
        return tr("not available", lang)
    value = (share or 0.0) * 100
    if 0 < value < 0.1:
        return "< 0.1 %"
    return f"{value:.1f} %" if abs(value) < 99.95 else f"{value:.0f} %"


def ratio(value: float | None, lang: str = "en") -> str:
    """Return "1.45×"."""
    return tr("not available", lang) if _missing(value) else f"{digits(value or 0.0)}×"


def money(value_usd: float | None, lang: str = "en") -> str:
    """Return "$0.213" or "$1,234"."""
    if _missing(value_usd):
        return tr("not available", lang)
    value = value_usd or 0.0
    if value >= 1000:
        return f"${value:,.0f}"
    return f"${digits(value)}"


def digits(value: float) -> str:
    """Return a number with three significant digits, never in exponent form."""
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(abs(float(f"{value:.3g}"))))
    return f"{value:,.{max(0, 2 - exponent)}f}"


def _missing(value: float | None) -> bool:
    return value is None or not math.isfinite(value)


def _scaled(value: float | None, scales: tuple[tuple[float, str], ...], lang: str) -> str:
    if value is None or not math.isfinite(value):
        return tr("not available", lang)
    if value == 0:
        one = next((unit for scale, unit in scales if scale == 1), scales[0][1])
        return f"0 {one}".strip()
    for scale, unit in scales:
        # 999.7 ms rounds to 1000 ms: that is 1.00 s.
        if abs(float(f"{value / scale:.3g}")) >= 1:
            return _exact(value, scale, unit)
    return _exact(value, *scales[-1])


def _exact(value: float, scale: float, unit: str) -> str:
    scaled = value / scale
    whole = scale == 1 and scaled == int(scaled) and abs(scaled) < 1e4
    return f"{f'{scaled:,.0f}' if whole else digits(scaled)} {unit}".strip()
