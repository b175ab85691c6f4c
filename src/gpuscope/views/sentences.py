"""Finished sentences in the user's language: notes and assumptions arrive with their figures in."""

from __future__ import annotations

import re
from functools import lru_cache

from gpuscope.explain.types import Words
from gpuscope.views.i18n import tr
from gpuscope.views.text_zh_sentences import SENTENCES


def sentence(text: str, lang: str) -> str:
    """Return a sentence of a run in a language; one that is not known stays in English.

    Args:
        text: the English sentence, figures and names filled in.
        lang: "en" or "zh".
    """
    if lang != "zh":
        return text
    for pattern, chinese in _patterns():
        found = pattern.fullmatch(text)
        if found:
            values = {name: sentence(value, lang) for name, value in found.groupdict().items()}
            return chinese.format(**values)
    return tr(text, lang)


def both(words: Words) -> Words:
    """The same words; in Chinese, too, where they came in English alone and are known."""
    return words if words.zh != words.en else Words(words.en, sentence(words.en, "zh"))


@lru_cache(maxsize=1)
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    """The sentences as patterns; those with more words of their own come first."""
    longest = sorted(SENTENCES, key=lambda english: -len(re.sub(r"\{\w+\}", "", english)))
    return tuple((_pattern(english), SENTENCES[english]) for english in longest)


def _pattern(english: str) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", english)
    words = [
        f"(?P<{part}>.+?)" if number % 2 else re.escape(part) for number, part in enumerate(parts)
    ]
    return re.compile("".join(words), re.S)
