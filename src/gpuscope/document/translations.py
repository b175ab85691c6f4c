"""Translations that a document takes along, for readers that have no catalogue (a page)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuscope.document.language import LANGUAGES, translated
from gpuscope.document.saved_text import walk
from gpuscope.document.text import Text, recorded, verbatim


def strings(data: object, lang: str) -> dict[str, str]:
    """Return the translations of all texts and stable words in plain data.

    Args:
        data: dicts, lists and scalars as `json.dumps` takes them; texts may still be `Text`.
        lang: the language.

    Returns:
        English -> that language. Stable words ("tensor_core", "idle: launches") are looked up
        whole, with spaces, and by their parts.
    """
    found: dict[str, str] = {}
    words: set[str] = set()
    for each in walk(data):
        if isinstance(each, Text):
            found[str(each)] = each.to(lang)
        else:
            words.add(each)
    for each in words:
        for key in {each, each.replace("_", " "), *each.split(": ")} - found.keys():
            text = translated(key, lang) if len(key) < 400 else key
            if text != key:
                found[key] = text
    return {key: found[key] for key in sorted(found)}


def spoken(data: Any) -> Any:
    """Return plain data in which each `Text` is an object of its form in every language."""
    if isinstance(data, Text):
        return {lang: data.to(lang) for lang in LANGUAGES}
    if isinstance(data, Mapping):
        return {key: spoken(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [spoken(value) for value in data]
    return data


def heard(data: str | Mapping[str, str]) -> Text:
    """Return a text as `spoken` wrote it; a string is one that no language translates.

    Raises:
        ValueError: it is neither; an object has English at the least, and texts alone.
    """
    if isinstance(data, str):
        return verbatim(data)
    if not isinstance(data, Mapping) or not isinstance(data.get("en"), str):
        raise ValueError(Text("a text expected, in English at the least"))
    if not all(isinstance(lang, str) and isinstance(each, str) for lang, each in data.items()):
        raise ValueError(Text("a text expected in each language"))
    return recorded(data)


def encoded(value: Any) -> Any:
    """Write what JSON does not know: a text in every language (msgspec's `enc_hook`).

    Raises:
        TypeError: it is no text.
    """
    if isinstance(value, Text):
        return spoken(value)
    raise TypeError(f"no JSON for {type(value).__name__}")


def decoded(kind: type, data: Any) -> Any:
    """Read what `encoded` wrote, and plain values (msgspec's `dec_hook`).

    Raises:
        TypeError: the type is another.
    """
    if kind is Text:
        return heard(data)
    if kind is object:
        return data
    raise TypeError(f"no {kind.__name__} in JSON")
