"""Typed values: a number that knows its unit, and is written by the one formatter.

A missing reading is `None` inside and shows as "not available". `str()` gives the English form;
`shown` any language's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpuscope.document import format as written


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number in the unit of its class.

    Attributes:
        value: in that unit; None where it is not known.
    """

    value: float | None
    unit: ClassVar[str] = ""

    def shown(self, lang: str = "en") -> str:
        """Return it as people read it."""
        return written.quantity(self.value, self.unit, lang)

    def __str__(self) -> str:
        return self.shown()

    def __format__(self, spec: str) -> str:
        return format(self.shown(), spec)


class Seconds(Quantity):
    """A duration: "12.3 ms"."""

    unit = "s"


class Bytes(Quantity):
    """An amount of memory, in powers of two: "21.4 GiB"."""

    unit = "bytes"


class ByteRate(Quantity):
    """Bytes per second, in powers of ten: "4.80 TB/s"."""

    unit = "bytes/s"


class Flops(Quantity):
    """An amount of arithmetic: "5.98 TFLOP"."""

    unit = "flop"


class FlopRate(Quantity):
    """Arithmetic per second: "989 TFLOP/s"."""

    unit = "flop/s"


class Intensity(Quantity):
    """Arithmetic per byte moved: "295 FLOP/B"."""

    unit = "flop/byte"


class Share(Quantity):
    """A share (0..1) to a tenth of a per cent: "38.2 %"."""

    unit = "share"


class Percent(Quantity):
    """A share (0..1) in whole per cents, for sentences: "38 %"."""

    unit = "percent"


class Ratio(Quantity):
    """A factor: "1.45×"."""

    unit = "ratio"


class Count(Quantity):
    """How many: "8,192", "157 k"."""

    unit = "count"


class Hertz(Quantity):
    """A frequency: "1.98 GHz"."""

    unit = "Hz"


class Watts(Quantity):
    """A power: "578 W"."""

    unit = "W"


class Joules(Quantity):
    """An energy: "28.1 J"."""

    unit = "J"


class Usd(Quantity):
    """Money: "$0.213"."""

    unit = "usd"


@dataclass(frozen=True, slots=True)
class Rate(Quantity):
    """A number with a decimal prefix before any unit: Rate(2e12, "bit/s") is "2.00 Tbit/s"."""

    of: str = ""

    def shown(self, lang: str = "en") -> str:
        """Return it as people read it."""
        return written.decimal(self.value, self.of, lang)


@dataclass(frozen=True, slots=True)
class Number(Quantity):
    """A plain number; `spec` is a format specification where three digits do not suit (",", ".1f").

    A table's column or an axis may call for a fixed number of places; a sentence rarely does.
    """

    spec: str = ""

    def shown(self, lang: str = "en") -> str:
        """Return it as people read it."""
        if self.spec and self.value is not None:
            return format(self.value, self.spec)
        return written.number(self.value, lang)


@dataclass(frozen=True, slots=True)
class Amount(Quantity):
    """A number before any unit, without prefixes: Amount(2.5, "tokens/s")."""

    of: str = ""

    def shown(self, lang: str = "en") -> str:
        """Return it as people read it."""
        return written.quantity(self.value, self.of, lang)


def quantity(value: float | None, unit: str) -> Quantity:
    """Return a value as the quantity of a unit of `gpuscope.document.format`, or of any other."""
    return _BY_UNIT[unit](value) if unit in _BY_UNIT else Amount(value, unit)


_BY_UNIT: dict[str, type[Quantity]] = {
    kind.unit: kind
    for kind in (
        Seconds,
        Bytes,
        ByteRate,
        Flops,
        FlopRate,
        Intensity,
        Share,
        Percent,
        Ratio,
        Count,
        Hertz,
        Watts,
        Joules,
        Usd,
        Number,
    )
}
