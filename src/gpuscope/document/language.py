"""Languages and their catalogues: the English template is the key, gettext finds its translation.

A language is one file, `locale/<code>.po`; `locale/<code>.mo` is compiled from it by
`python tools/catalogue.py` (a test holds the two together). English needs none. The pseudo-language
`PSEUDO` brackets the words of every template that went through the catalogue (but not its values),
so that a test sees what did not.
"""

from __future__ import annotations

import gettext
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

FOLDER = Path(__file__).parent / "locale"
"""Where the catalogues lie."""

LANGUAGES: tuple[str, ...] = ("en", *sorted(path.stem for path in FOLDER.glob("*.mo")))
"""Codes of all languages, English first."""

PSEUDO = "qps"
"""Code of the pseudo-language of tests."""

_WORDS = re.compile(r"(\{\w+\})|([^\W\d_](?:[^{}]|\{\{|\}\})*)")
"""A value's place in a template; or a stretch from a letter to the next place."""

SENTENCES = "{first} {second}"
"""The template whose translation says how two sentences follow each other."""


def translated(template: str, lang: str) -> str:
    """Return a template in a language; itself where the catalogue has none."""
    if lang == "en" or not template:
        return template
    if lang == PSEUDO:
        return _WORDS.sub(lambda found: found[1] or f"⟦{found[2]}⟧", template)
    return catalogue(lang).gettext(template)


def translated_plural(one: str, many: str, number: int, lang: str) -> str:
    """Return the form of a template that a number takes in a language."""
    if lang in ("en", PSEUDO):
        return translated(one if number == 1 else many, lang)
    return catalogue(lang).ngettext(one, many, number)


_HAN = "[\\u4e00-\\u9fff]"
_GAP = re.compile(f"(?<={_HAN})\x02(?=[A-Za-z0-9])|(?<=[A-Za-z0-9%])\x03(?={_HAN})")


def filled(template: str, values: Mapping[str, object], lang: str) -> str:
    """Return a template of a language with its values put in.

    Chinese characters stand apart from a name or a figure in Latin letters by a space; a value may
    be either, so that the template cannot hold it.
    """
    if lang == "en" or not values:
        return template.format(**values) if values else template
    marked = {key: f"\x02{value}\x03" for key, value in values.items()}
    return _GAP.sub(" ", template.format(**marked)).replace("\x02", "").replace("\x03", "")


def sentence_gap(lang: str) -> str:
    """Return what stands between two sentences: a space, or nothing where the script has none."""
    pair = SENTENCES if lang == PSEUDO else translated(SENTENCES, lang)
    return pair.removeprefix("{first}").removesuffix("{second}")


@lru_cache(maxsize=8)
def catalogue(lang: str) -> gettext.NullTranslations:
    """Return the catalogue of a language; an empty one where there is none."""
    path = FOLDER / f"{lang}.mo"
    if not path.exists():
        return gettext.NullTranslations()
    with path.open("rb") as file:
        return gettext.GNUTranslations(file)
