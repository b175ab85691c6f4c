"""The tables beside the readers (`nvjet.toml`, ...): what patterns of kernel names mean.

A *rule* reads one token of a name, or as many as its pattern holds "_" more; rules are tried in
order:

    { match = 'ldg(?P<count>\\d+)', field = "vector", text = "loads {count} values at once" }

`field` is a key of `FIELDS`. The meaning is one of `text` (translated), `name` (the same in all
languages) and `value` (one group by itself); the pattern's groups fill the braces. `certain` is
false where the library documents nothing. A group is read by what it is called:

* as a key of the table of that name: `[words.operation]` holds texts, `[names.kind]` names, of this
  file or of `words.toml`;
* `dtype`, `sm`, `shape` ("128x64"), `letters` ("tn"): as `words` reads them; `product` of "2x2" is
  4, `upper` and `lower` change the letters;
* else as it stands.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from gpuscope.document.text import Text, extracted, verbatim
from gpuscope.explanation.kernel_names import words
from gpuscope.explanation.kernel_names.tokens import Rule

_READ: Mapping[str, Callable[[str], str]] = {
    "dtype": lambda text: words.dtype(text) or text,
    "sm": lambda text: words.architecture(int(text)),
    "shape": words.shape,
    "letters": words.transposes,
    "product": lambda text: str(math.prod(map(int, text.split("x")))),
    "upper": str.upper,
    "lower": str.lower,
}


@dataclass(frozen=True, slots=True)
class Names:
    """A table, read.

    Attributes:
        rules: its rules, in order.
        words: what groups mean, by the group's name and what it holds; texts.
        names: the same; names.
        raw: all of the file.
    """

    rules: tuple[Rule, ...]
    words: Mapping[str, Mapping[str, Text]]
    names: Mapping[str, Mapping[str, str]]
    raw: Mapping[str, Any]


@cache
def table(name: str) -> Names:
    """Return a table by its file's name, without ".toml"."""
    raw = words.read_table(name)
    texts = {
        group: {key: extracted(text) for key, text in entries.items()}
        for group, entries in raw.get("words", {}).items()
    }
    known: dict[str, Mapping[str, str]] = {**words.NAMES, **raw.get("names", {}), **texts}
    rules = tuple(_rule(entry, known) for entry in raw.get("rules", ()))
    return Names(rules, texts, raw.get("names", {}), raw)


def _rule(entry: Mapping[str, Any], known: Mapping[str, Mapping[str, str]]) -> Rule:
    def meaning(found: re.Match[str]) -> Text:
        groups = {key: _read(key, text, known) for key, text in found.groupdict().items()}
        if "value" in entry:
            return verbatim(groups[entry["value"]])
        if "name" in entry:
            return verbatim(entry["name"].format(**groups))
        return extracted(entry["text"], **groups)

    return Rule(entry["match"], entry["field"], meaning, entry.get("certain", True))


def _read(key: str, text: str, known: Mapping[str, Mapping[str, str]]) -> str:
    if key in known:
        return known[key].get(text, text)
    return _READ[key](text) if key in _READ else text
