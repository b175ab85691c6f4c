"""A text that brings its own Chinese, so that a test needs no catalogue."""

from __future__ import annotations

from gpuscope.document.text import Text


class Both(Text):
    """English, and what it is in Chinese."""

    chinese: str

    def to(self, lang: str) -> str:
        """Return it in a language."""
        return self.chinese if lang == "zh" else str(self)


def both(en: str, zh: str = "中文") -> Text:
    """Return a text in two languages."""
    text = str.__new__(Both, en)
    text._render = Text(en)._render
    text.chinese = zh
    return text
