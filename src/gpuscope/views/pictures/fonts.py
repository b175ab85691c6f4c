"""The fonts of the pictures: matplotlib's own, and one that has Chinese where the system has it."""

from __future__ import annotations

from functools import cache

from gpuscope.views.i18n import tr

_LATIN = "DejaVu Sans"
"""Comes with matplotlib, so that pictures look alike everywhere."""

_CHINESE: tuple[str, ...] = (
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "Source Han Sans CN",
    "Microsoft YaHei",
    "PingFang SC",
    "Hiragino Sans GB",
    "Heiti SC",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "SimHei",
    "Noto Sans CJK JP",
    "Noto Sans CJK TC",
    "Droid Sans Fallback",
    "Arial Unicode MS",
    "Noto Serif CJK SC",
    "SimSun",
)
"""Families that have simplified Chinese, the best first. Of a collection of faces (Noto's .ttc)
matplotlib may know only the first, which is the Japanese one: it has the characters too."""


@cache
def chinese_font() -> str | None:
    """Return the family that draws Chinese here; None if there is none."""
    from matplotlib.font_manager import fontManager

    present = set(fontManager.get_font_names())
    return next((family for family in _CHINESE if family in present), None)


def families() -> list[str]:
    """Return the font families to draw with, in order: each character takes the first with it."""
    chinese = chinese_font()
    return [_LATIN] if chinese is None else [_LATIN, chinese]


def missing_font(lang: str) -> str | None:
    """Return a sentence for the user where no font can show the language; else None."""
    if lang != "zh" or chinese_font() is not None:
        return None
    return tr(
        "No font with Chinese characters was found, so they are missing in the pictures. Install "
        "one (for example Noto Sans CJK), or write the figures with --lang en.",
        lang,
    )
