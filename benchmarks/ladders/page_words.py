"""Tables and figures of the pages that this folder makes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuscope.document import format as written

__all__ = [
    "LINKS",
    "VERDICTS",
    "InLanguage",
    "cell",
    "count",
    "interval",
    "named",
    "percent",
    "signed",
    "table",
    "times",
]

LINKS = "../benchmarks"
"""From a page to this folder's."""

VERDICTS = {
    "agrees": ("agree", "一致"),
    "differs": ("differ", "不一致"),
    "overflow": ("overflow", "溢出"),
    "distribution": ("agree in distribution", "分布一致"),
    "unchecked": ("not checked", "未检查"),
}


class InLanguage:
    """A page, or a part of one, in one language.

    Args:
        zh: in Chinese.
    """

    def __init__(self, zh: bool) -> None:
        self.zh = zh

    @property
    def lang(self) -> str:
        """Its code."""
        return "zh" if self.zh else "en"

    def t(self, en: str, zh: str) -> str:
        """The words of this language."""
        return zh if self.zh else en


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], sides: str) -> str:
    """A table; each column's side: l or r."""
    marks = ["---:" if side == "r" else "---" for side in sides]
    lines = [heads, marks, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def percent(value: float) -> str:
    """A share, of small ones one digit more: 45 %, 4.5 %."""
    return f"{value * 100:.0f} %" if round(value, 4) >= 0.1 else f"{value * 100:.1f} %"


def count(value: float) -> str:
    """A number of things, or of parts of them."""
    return f"{value:,.0f}" if value >= 100 else written.digits(value)


def times(value: float | None) -> str:
    """A gain: 1.25×."""
    return "–" if value is None else f"{written.digits(value)}×"


def interval(low: float | None, high: float | None) -> str:
    """From the least to the most."""
    return "–" if low is None or high is None else f"{written.digits(low)}–{written.digits(high)}"


def signed(value: float) -> str:
    """An error: +31.5 %, −2.0 %."""
    return f"{value * 100:+.1f} %".replace("-", "−")


def named(names: Sequence[str]) -> str:
    """Names of changes."""
    return ", ".join(f"`{name}`" for name in names)


def cell(text: str) -> str:
    """A text that fits into one cell of a table."""
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split()) or "–"
