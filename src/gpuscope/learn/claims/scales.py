"""Units that claims are stated in, and numbers as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from string import Formatter

from gpuscope.document.quantities import Number
from gpuscope.document.text import Text, extracted


@dataclass(frozen=True, slots=True)
class Scale:
    """One unit: how many SI units it is, and a number in it as text.

    The template's `number` is in the unit; `hundred_millions` and `ten_thousands` are the value in
    these, for languages that count large numbers so (Chinese: by 10,000 and 100 million).
    """

    size: float
    text: str


def _same(size: float, *units: str) -> dict[str, Scale]:
    return {unit: Scale(size, f"{{number}} {unit}") for unit in units}


SCALES: Mapping[str, Scale] = {
    "": Scale(1, "{number}"),
    "x": Scale(1, Text("{number}×")),
    "%": Scale(0.01, "{number} %"),
    **_same(1, "SM", "W", "s", "bit", "FLOP", "FLOP/byte", "°C", "FLOP/s"),
    **_same(1e3, "kW"),
    **_same(1e6, "MW"),
    **_same(1e-3, "ms"),
    **_same(1e-6, "µs"),
    **_same(1e-9, "nm"),
    **_same(1e-12, "pJ"),
    **_same(1e6, "MB", "MFLOP"),
    **_same(1e9, "GB", "GB/s", "GHz", "GFLOP", "GT/s"),
    **_same(1e12, "TB", "TB/s", "TFLOPS", "TFLOPS/W"),
    **_same(1e15, "PFLOPS"),
    **_same(1e18, "EFLOPS"),
    **_same(2**20, "MiB"),
    **_same(2**30, "GiB"),
    **_same(1e9 / 8, "Gb/s"),
    "mm2": Scale(1, "{number} mm²"),
    "USD": Scale(1, Text("{number} USD")),
    "million USD": Scale(1e6, Text("{number} million USD")),
    "USD/month": Scale(1, Text("{number} USD a month")),
    "billion": Scale(1e9, Text("{number} billion")),
    "million": Scale(1e6, Text("{number} million")),
    "year": Scale(1, Text("{year}")),
    "h": Scale(3600, Text("{number} h")),
    "threads": Scale(1, Text("{number} threads")),
    "cores": Scale(1, Text("{number} cores")),
    "units": Scale(1, Text("{number} units")),
    "blocks": Scale(1, Text("{number} blocks")),
    "tiles": Scale(1, Text("{number} tiles")),
    "chips": Scale(1, Text("{number} chips")),
    "GPUs": Scale(1, Text("{number} GPUs")),
    "stacks": Scale(1, Text("{number} stacks")),
    "sites": Scale(1, Text("{number} sites")),
    "channels": Scale(1, Text("{number} channels")),
    "links": Scale(1, Text("{number} links")),
    "instances": Scale(1, Text("{number} instances")),
    "FMA": Scale(1, Text("{number} FMA/clock")),
    "products": Scale(1, Text("{number} products")),
    "tokens": Scale(1, Text("{number} tokens")),
    "bytes/parameter": Scale(1, Text("{number} bytes/parameter")),
    "characters/min": Scale(1, Text("{number} characters a minute")),
}
"""By name. A value in SI units divided by `size` is the value in the unit."""


def in_unit(value: float, unit: str) -> Text:
    """A value in SI units as text in a unit, e.g. "2,039 GB/s".

    Args:
        value: in SI units.
        unit: a key of `SCALES`.
    """
    scale = SCALES[unit]
    return extracted(
        scale.text,
        number=_signed(value / scale.size),
        year=_signed(value, grouped=False),
        hundred_millions=_signed(value / 1e8),
        ten_thousands=_signed(value / 1e4),
    )


def _signed(value: float, grouped: bool = True) -> str:
    return number(value, grouped).replace("-", "−")


def number(value: float, grouped: bool = True) -> str:
    """Three significant digits (four from 100 on), whole numbers in full, mostly no exponent."""
    if value == round(value) and abs(value) < 1e15:
        return f"{value:,.0f}" if grouped else f"{value:.0f}"
    if abs(value) >= 1e15 or 0 < abs(value) < 1e-4:
        return f"{value:.3g}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    text = f"{value:.4g}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{float(text):f}".rstrip("0").rstrip(".") if "e" in text else text


@dataclass(frozen=True, slots=True)
class Sentence:
    """A template of a table and how its names are shown.

    Attributes:
        template: with {names} of figures.
        units: of the names: a key of `SCALES`, or a format specification (".1f"); names that are
            left out are plain numbers.
    """

    template: str
    units: Mapping[str, str]

    def filled(self, values: Mapping[str, float]) -> Text:
        """Fill in values, in SI units.

        Raises:
            KeyError: the template names a value that is not there.
        """
        names = {name for _, name, _, _ in Formatter().parse(self.template) if name}
        return extracted(
            self.template, **{name: self._shown(values[name], name) for name in sorted(names)}
        )

    def _shown(self, value: float, name: str) -> Text | Number:
        unit = self.units.get(name, "")
        return in_unit(value, unit) if unit in SCALES else Number(value, unit)
