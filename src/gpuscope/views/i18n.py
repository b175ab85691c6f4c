"""The language of what is shown: chosen once by the command line, then handed to every view."""

from __future__ import annotations

import os
from collections.abc import Mapping

from gpuscope.document.language import LANGUAGES, PSEUDO, filled, translated
from gpuscope.document.printable import one_line
from gpuscope.document.text import Text
from gpuscope.errors import UnknownNameError

__all__ = ["LANGUAGES", "choose_language", "tr"]

_LOCALE_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")


def tr(text: str, lang: str, /, **values: object) -> str:
    """Return a view's own text in a language, with `{names}` filled in.

    Args:
        text: the English text, a literal (see `tools/catalogue.py`). What has no translation (an
            operator's name, say) stays as it is.
        lang: one of `LANGUAGES`.
        values: what stands in the text's braces: rendered already, or names from outside.
    """
    if isinstance(text, Text) and not values:
        return text.to(lang)
    shown = {name: one_line(str(value)) for name, value in values.items()}
    return filled(translated(text, lang), shown, lang)


def next_language(lang: str) -> str:
    """Return the language after one, the first after the last; each catalogue has its own name as
    the translation of "English"."""
    at = LANGUAGES.index(lang) if lang in LANGUAGES else -1
    return LANGUAGES[(at + 1) % len(LANGUAGES)]


def choose_language(asked: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """Return the language to use: what is asked, else GPUSCOPE_LANG, else the locale's.

    Args:
        asked: the value of `--lang`, None if it was not given.
        environment: environment variables.

    Raises:
        UnknownNameError: no such language.
    """
    wanted = asked or environment.get("GPUSCOPE_LANG")
    if wanted:
        short = wanted.strip().lower().replace("_", "-").partition("-")[0]
        if short not in (*LANGUAGES, PSEUDO):
            raise UnknownNameError(
                Text("language"),
                wanted,
                LANGUAGES,
                Text("Type: {command}", command=" | ".join(f"--lang {x}" for x in LANGUAGES)),
            )
        return short
    # The first variable that is set decides, as in POSIX.
    locale = next((environment[v] for v in _LOCALE_VARIABLES if environment.get(v)), "")
    short = locale.lower()[:2]
    return short if short in LANGUAGES else "en"
