"""Figures inside sentences: three significant digits and the unit that fits."""

from __future__ import annotations

from math import isfinite

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_BYTES = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))
_RATES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def three(value: float) -> str:
    """Three significant digits, thousands apart: 0.0123, 4.5, 123, 12,300."""
    if value == 0 or not isfinite(value):
        return f"{value:g}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def seconds(value_s: float) -> str:
    """A duration: "175 µs"."""
    for scale, unit in _TIMES:
        if abs(value_s) >= scale * 0.9995:
            return f"{three(value_s / scale)} {unit}"
    return f"{three(value_s * 1e9)} ns"


def size(value_bytes: float) -> str:
    """An amount of memory: "32 MiB"."""
    for scale, unit in _BYTES:
        if abs(value_bytes) >= scale:
            return f"{three(value_bytes / scale)} {unit}"
    return f"{three(value_bytes)} B"


def rate(value: float, unit: str) -> str:
    """A decimal rate or count with a prefix: "785 TFLOP/s", "4.8 TB/s"."""
    for scale, prefix in _RATES:
        if abs(value) >= scale * 0.9995:
            return f"{three(value / scale)} {prefix}{unit}"
    return f"{three(value)} {unit}"


def percent(share: float) -> str:
    """A share: "79 %", "0.4 %", "< 0.01 %"."""
    value = 100.0 * share
    if 0 < abs(value) < 0.00995:
        return "< 0.01 %"
    return f"{value:.0f} %" if abs(value) >= 9.95 or value == 0 else f"{value:.2g} %"


def count(value: float) -> str:
    """A whole number with thousands apart."""
    return f"{value:,.0f}"


def exact_percent(share: float) -> str:
    """A share to three digits: "37.5 %", "100 %"."""
    return f"{three(100.0 * share)} %"


def an(name: str) -> str:
    """A name with its article: "an SM", "a CU"."""
    return f"{'an' if name[:1] in 'AEFHILMNORSXaeio' and name[:2].isupper() else 'a'} {name}"
