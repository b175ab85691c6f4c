"""User-visible text in two languages: the English text is the key, Chinese is looked up.

Write every sentence as `tr("English text", lang)`. A test collects these calls and fails where a
translation is missing, so a new sentence goes into `text_zh.py` at once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from gpuscope.errors import UnknownNameError
from gpuscope.views.text_zh import CHINESE

LANGUAGES: tuple[str, ...] = ("en", "zh")

_LOCALE_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")


def tr(text: str, lang: str, /, **values: object) -> str:
    """Return `text` in a language, with `{names}` filled in.

    Args:
        text: the English text. What has no translation (an operator's name, say) stays as it is.
        lang: one of `LANGUAGES`.
        values: what stands in the text's braces.
    """
    found = CHINESE.get(text, text) if lang == "zh" else text
    return found.format(**values) if values else found


def choose_language(asked: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """Return the language to use: what is asked, else GPUSCOPE_LANG, else the locale's.

    Args:
        asked: the value of `--lang`, None if it was not given.
        environment: environment variables.

    Raises:
        UnknownNameError: neither "en" nor "zh".
    """
    wanted = asked or environment.get("GPUSCOPE_LANG")
    if wanted:
        short = wanted.strip().lower().replace("_", "-").partition("-")[0]
        if short not in LANGUAGES:
            raise UnknownNameError("language", wanted, LANGUAGES, "Type: --lang en or --lang zh")
        return short
    # The first variable that is set decides, as in POSIX.
    locale = next((environment[v] for v in _LOCALE_VARIABLES if environment.get(v)), "")
    return "zh" if locale.lower().startswith("zh") else "en"
