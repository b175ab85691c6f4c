"""Texts in saved documents: how each was made, so that it is read back as a `Text`.

A document holds the English sentence where the text stands, and one table, `texts`: English -> how
it was made. A form is an object with one of these keys:

    {}                                          the English is its own template
    {"template": "...", "values": {...}}
    {"plural": ["one", "many"], "number": 3, "values": {...}}
    {"joined": [...], "separator": ", "}
    {"sentences": [...]}
    {"capital": ...}
    {"name": ...}                               the same in all languages
    {"languages": {"en": "...", ...}}

A value is a string, a whole number, {"text": form, "en": "..."} or a quantity:
{"unit": "s", "value": 0.01}; {"rate": "bit/s"}, {"amount": "tokens/s"} or {"number": ",.0f"}, with
their value.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gpuscope.document import text as made
from gpuscope.document.quantities import Amount, Number, Quantity, Rate, quantity
from gpuscope.document.text import Text, Value

Json = dict[str, Any]

_DEEPEST = 30
"""Texts within texts that are read."""

_SPEC = re.compile(r"[+]?,?(\.\d{1,2})?[dfg%]?")
"""Specifications of numbers that are read."""

_KINDS: Mapping[str, Callable[[float | None, str], Quantity]] = {
    "unit": quantity,
    "rate": Rate,
    "amount": Amount,
    "number": Number,
}


def texts_of(document: object) -> dict[str, Json]:
    """Return the table of all texts in plain data whose `Text`s are still there."""
    texts: list[Text] = []
    _gather(document, texts)
    found = {str(each): form(each) for each in texts if each}
    return {english: how for english, how in found.items() if how.get("name") != english}


def _gather(data: object, texts: list[Text]) -> None:
    """Collect the `Text`s that `walk` would yield; millions of plain strings are passed over."""
    if isinstance(data, Text):
        texts.append(data)
    elif isinstance(data, Mapping):
        for key, value in data.items():
            if isinstance(key, Text):
                texts.append(key)
            if type(value) not in _BARE:
                _gather(value, texts)
    elif isinstance(data, list | tuple) and not (data and isinstance(data[0], int | float)):
        for value in data:
            if type(value) not in _BARE:
                _gather(value, texts)


_BARE = frozenset({str, int, float, bool, type(None)})
"""What holds no text."""


def walk(data: object) -> Iterator[str]:
    """Yield all strings of plain data, keys too."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, Mapping):
        for key, value in data.items():
            yield from walk(key)
            yield from walk(value)
    elif isinstance(data, list | tuple) and not (data and isinstance(data[0], int | float)):
        for value in data:
            yield from walk(value)


def form(text: Text) -> Json:
    """Return how a text was made, as plain data."""
    how, *parts = text.made
    if how == "template":
        template, values = parts
        if not values and template == str(text):
            return {}
        return {"template": template, "values": {k: _value(v) for k, v in values.items()}}
    if how == "plural":
        one, many, number, values = parts
        shown = {key: _value(value) for key, value in values.items() if key != "count"}
        return {"plural": [one, many], "number": number, "values": shown}
    if how == "joined":
        return {"joined": [_value(part) for part in parts[0]], "separator": parts[1]}
    if how == "sentences":
        return {"sentences": [_value(part) for part in parts[0]]}
    return {how: dict(parts[0]) if how == "languages" else _value(parts[0])}


def _value(value: Value) -> Any:
    if isinstance(value, Text):
        return {"text": form(value), "en": str(value)}
    if not isinstance(value, Quantity):
        return value
    for key, kind in (("rate", Rate), ("amount", Amount), ("number", Number)):
        if isinstance(value, kind):
            return {key: getattr(value, "of", getattr(value, "spec", "")), "value": _plain(value)}
    return {"unit": value.unit, "value": _plain(value)}


def _plain(number: Quantity) -> float | None:
    if number.value is None or not math.isfinite(number.value):
        return None
    return number.value if type(number.value) is int else float(number.value)


def restored(data: object, texts: Mapping[str, Json]) -> Any:
    """Return a document's data with `Text`s where the table knows a string.

    Documents of version 1 have no table: there a string's Chinese stands beside it under `_zh`.

    Raises:
        ValueError: the table holds what is no text.
    """
    if not isinstance(texts, Mapping):
        raise ValueError(Text("The table of its texts is no object."))
    return _with({english: text_from(english, how) for english, how in texts.items()}, data)


def _with(known: Mapping[str, Text], data: object) -> Any:
    if isinstance(data, str):
        return known.get(data, data)
    if isinstance(data, Mapping):
        found = {key: _with(known, value) for key, value in data.items()}
        for key in [key for key in data if key.endswith("_zh")]:
            plain = key.removesuffix("_zh")
            english, chinese = data.get(plain), data[key]
            if english and isinstance(english, str) and isinstance(chinese, str):
                found[plain] = made.recorded({"en": english, "zh": chinese or english})
        return found
    if isinstance(data, list) and not (data and isinstance(data[0], int | float)):
        return [_with(known, value) for value in data]
    return data


def text_from(english: str, how: object, depth: int = 0) -> Text:
    """Return a text from its form.

    Raises:
        ValueError: no such form.
    """
    if not isinstance(how, Mapping) or depth > _DEEPEST:
        raise _no_text(english)
    if not how:
        return made.extracted(english)
    try:
        return _FORMS[next(key for key in _FORMS if key in how)](dict(how), depth + 1)
    except ValueError as error:
        if error.args and isinstance(error.args[0], Text):
            raise
        raise _no_text(english) from error
    except (StopIteration, KeyError, TypeError, AttributeError, IndexError) as error:
        raise _no_text(english) from error


def _no_text(english: object) -> ValueError:
    return ValueError(Text("The text '{text}' has an unknown form.", text=str(english)[:60]))


def _template(how: Json, depth: int) -> Text:
    return made.extracted(_checked(how["template"]), **_values(how, depth))


def _plural(how: Json, depth: int) -> Text:
    one, many = map(_checked, how["plural"])
    return made.plural(one, many, int(how["number"]), **_values(how, depth))


def _languages(how: Json, _depth: int) -> Text:
    return made.recorded({str(lang): str(text) for lang, text in how["languages"].items()})


_FORMS: Mapping[str, Callable[[Json, int], Text]] = {
    "template": _template,
    "plural": _plural,
    "joined": lambda how, depth: made.joined(_parts(how["joined"], depth), str(how["separator"])),
    "sentences": lambda how, depth: made.sentences(*_parts(how["sentences"], depth)),
    "capital": lambda how, depth: made.capital(_read(how["capital"], depth)),
    "name": lambda how, depth: made.verbatim(_read(how["name"], depth)),
    "languages": _languages,
}


def _checked(template: str) -> str:
    """A template with plain names in its braces: nothing of a value can be reached but itself."""
    for _, name, spec, conversion in string.Formatter().parse(template):
        if name is not None and (not name.isidentifier() or spec or conversion):
            raise ValueError(Text("'{template}' is no template of a text.", template=template[:60]))
    return template


def _values(how: Json, depth: int) -> dict[str, Any]:
    return {str(key): _read(value, depth) for key, value in how.get("values", {}).items()}


def _parts(parts: list[Any], depth: int) -> list[str]:
    return [_read(part, depth) for part in parts]


def _read(value: Any, depth: int) -> Any:
    if isinstance(value, str | int):
        return value
    if "text" in value:
        return text_from(str(value["en"]), value["text"], depth)
    kind = next(key for key in _KINDS if key in value)
    number, of = value["value"], str(value[kind])
    if number is not None and not isinstance(number, int | float):
        raise TypeError(number)
    if kind == "number" and not _SPEC.fullmatch(of):
        raise TypeError(of)
    return _KINDS[kind](number, of)
