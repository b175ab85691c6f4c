"""The ground floor: quantities, texts, the one formatter, blocks and catalogues of translations.

Every room stands on it and it knows none of them. A fact travels as a typed quantity, a sentence as
a `Text`; only `gpuscope.views` and `gpuscope.cli` render them.
"""

from gpuscope.document.language import LANGUAGES
from gpuscope.document.quantities import (
    ByteRate,
    Bytes,
    Count,
    FlopRate,
    Flops,
    Hertz,
    Intensity,
    Joules,
    Number,
    Percent,
    Quantity,
    Rate,
    Ratio,
    Seconds,
    Share,
    Usd,
    Watts,
)
from gpuscope.document.text import Text, capital, joined, plural, render, sentences, verbatim

__all__ = [
    "LANGUAGES",
    "ByteRate",
    "Bytes",
    "Count",
    "FlopRate",
    "Flops",
    "Hertz",
    "Intensity",
    "Joules",
    "Number",
    "Percent",
    "Quantity",
    "Rate",
    "Ratio",
    "Seconds",
    "Share",
    "Text",
    "Usd",
    "Watts",
    "capital",
    "joined",
    "plural",
    "render",
    "sentences",
    "verbatim",
]
