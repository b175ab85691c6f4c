"""Values of an explanation as text: the contract's units, mapped to `views.units` in one place.

The terminal, the pictures and the notebook write a value through `cell`; the page follows the same
table in its own language (web/).
"""

from __future__ import annotations

import math

from gpuscope.document.blocks import Axis, Cell
from gpuscope.document.format import quantity
from gpuscope.document.text import Text, render
from gpuscope.views.i18n import tr


def words(text: Text | None, lang: str) -> str:
    """Return a text in a language; "" for None."""
    if text is None:
        return ""
    return text.to(lang)


def cell(value: Cell, unit: str = "", lang: str = "en") -> str:
    """Return a value as people read it.

    Args:
        value: a number in `unit`, a name, words, or None ("not available").
        unit: one of `FORMATS`; "" for a plain number. Any other stands behind the number as it is
            ("tokens/s").
        lang: "en" or "zh".
    """
    if value is None:
        return tr("not available", lang)
    if isinstance(value, str):
        return render(value, lang)
    return quantity(float(value), unit, lang)


def tick(value: float, unit: str = "", lang: str = "en") -> str:
    """Return a value for an axis: as `cell`, without zeros that say nothing ("1 ms")."""
    head, space, tail = cell(value, unit, lang).partition(" ")
    if "." in head:
        whole, ending = (head[:-1], head[-1]) if head.endswith("×") else (head, "")
        head = whole.rstrip("0").rstrip(".") + ending
    return f"{head}{space}{tail}"


def axis_label(axis: Axis, lang: str = "en") -> str:
    """Return an axis's name; "(log)" behind it where it is logarithmic."""
    name = words(axis.label, lang)
    return tr("{name} (log)", lang, name=name) if axis.log else name


def ticks(low: float, high: float, most: int, *, unit: str = "", log: bool = False) -> list[float]:
    """Return round values inside an axis, rising, at most `most` of them.

    Args:
        low, high: ends of the axis; both above 0 where it is logarithmic.
        most: at least 2.
        unit: on a logarithmic axis sizes ("bytes") and small counts get powers of two.
        log: powers instead of equal steps; 1, 2 and 5 of each where it spans few decades.
    """
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        return [low] if math.isfinite(low) else []
    if log:
        counts = unit in ("", "count") and low >= 1 and high / low < 2000
        return _powers(low, high, most, binary=unit == "bytes" or counts)
    return _equal_steps(low, high, most, binary=unit == "bytes")


def _powers(low: float, high: float, most: int, binary: bool) -> list[float]:
    base = 2.0 if binary else 10.0
    first = math.ceil(math.log(low, base) - 1e-9)
    last = math.floor(math.log(high, base) + 1e-9)
    if not binary and high / low < 1000:
        fine = [m * base**n for n in range(first - 1, last + 1) for m in (1, 2, 5)]
        fine = [value for value in fine if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]
        if len(fine) <= most:
            return fine or [low, high][:most]
    if last < first:
        return [low, high][:most]
    step = math.ceil((last - first + 1) / most)
    if binary and step > 2:
        step = next(s for s in (5, 10, 20, 40, 80, 200, 1000) if s >= step)
    # On multiples of the step: KiB, MiB and GiB rather than 4 KiB and 4 MiB.
    begin = math.ceil(first / step) * step
    return [base**n for n in range(begin if begin <= last else first, last + 1, step)]


def _equal_steps(low: float, high: float, most: int, binary: bool) -> list[float]:
    least = (high - low) / max(1, most - 1)
    if binary and least >= 1:
        step = 2.0 ** math.ceil(math.log2(least))  # 512 MiB, 1 GiB: round in the unit shown
    else:
        power = 10.0 ** math.floor(math.log10(least))
        step = next(power * m for m in (1, 2, 2.5, 5, 10, 20) if power * m >= least)
    first = math.ceil(low / step - 1e-9)
    found = [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]
    return found[:most] or [low]
