"""JSON Schema of plain data, from the types that it is made of: what `plain` writes, no more.

A dataclass is an object with all its fields: each is written always, `null` where it is missing.
Its descriptions are those of its docstring's "Attributes".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from inspect import cleandoc
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from gpuscope.document.language import LANGUAGES
from gpuscope.document.plain import Json
from gpuscope.document.text import Text

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_NUMBER: Json = {"type": ["number", "null"]}
"""A number that is not finite is written as null."""

_ATTRIBUTE = re.compile(r"^ {4}(\w+(?:, \w+)*): (.+(?:\n {8}.+)*)", re.MULTILINE)


class Schemas:
    """Makes the schemas of types, and collects the dataclasses that they name.

    Attributes:
        definitions: by the type's name; what "$ref" points to.
        spoken: texts are objects of their form in every language (`spoken`), not English alone.
    """

    def __init__(self, *, spoken: bool = False) -> None:
        self.definitions: dict[str, Json] = {}
        self.spoken = spoken
        self._named: dict[str, type] = {}

    def of(self, kind: Any) -> Json:
        """Return the schema of a type.

        Raises:
            TypeError: no plain data is made of it.
        """
        if kind in (Any, object):
            return {}
        origin, inside = get_origin(kind), get_args(kind)
        if origin in (Annotated, NotRequired):
            return self.of(inside[0])
        if origin in (Union, UnionType):
            return self._union([self.of(each) for each in inside])
        if origin is Literal:
            return {"enum": list(inside)}
        if getattr(origin, "__name__", "") == "ndarray":
            return self._column(get_args(inside[1])[0])
        if origin is not None:
            return self._container(origin, inside)
        return self._single(kind)

    def _single(self, kind: Any) -> Json:
        if is_dataclass(kind) or is_typeddict(kind):
            return self._named_object(kind)
        if kind is NoneType:
            return {"type": "null"}
        if issubclass(kind, Text):
            return self._text()
        for known, schema in (
            (bool, {"type": "boolean"}),
            (int, {"type": "integer"}),
            (float, _NUMBER),
            (str, {"type": "string"}),
        ):
            if issubclass(kind, known):
                return schema
        raise TypeError(f"no plain data is made of {kind!r}")

    def _text(self) -> Json:
        if not self.spoken:
            return {"type": "string"}
        each = {language: {"type": "string"} for language in LANGUAGES}
        self.definitions.setdefault(
            "Text", {"type": "object", "properties": each, "required": list(each)}
        )
        return {"$ref": "#/$defs/Text"}

    def _union(self, choices: Sequence[Json]) -> Json:
        """One of several; plain types in one list, as people write them."""
        distinct = [each for i, each in enumerate(choices) if each not in choices[:i]]
        if {} in distinct:
            return {}
        if all(set(each) == {"type"} for each in distinct):
            names = [n for each in distinct for n in _listed(each["type"])]
            names = list(dict.fromkeys(names))
            return {"type": names[0] if len(names) == 1 else names}
        return distinct[0] if len(distinct) == 1 else {"anyOf": distinct}

    def _container(self, origin: Any, inside: tuple[Any, ...]) -> Json:
        if issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self.of(inside[1])}
        if issubclass(origin, tuple) and (len(inside) < 2 or inside[1] is not Ellipsis):
            items = [self.of(each) for each in inside]
            return {"type": "array", "prefixItems": items, "minItems": len(items), "items": False}
        if issubclass(origin, Sequence | Set):
            return {"type": "array", "items": self.of(inside[0])}
        raise TypeError(f"no plain data is made of {origin!r}")

    @staticmethod
    def _column(scalar: type) -> Json:
        """A numpy array: numbers, or rows of them."""
        number = {"type": "integer"} if "int" in scalar.__name__ else _NUMBER
        return {"type": "array", "items": {"anyOf": [number, {"type": "array", "items": number}]}}

    def _named_object(self, kind: Any) -> Json:
        name = kind.__name__.strip("_")
        if self._named.setdefault(name, kind) is not kind:
            name = f"{kind.__module__.rpartition('.')[2]}.{name}"
            self._named[name] = kind
        if name not in self.definitions:
            self.definitions[name] = {}  # before its fields: one may be of its own kind
            self.definitions[name] = self.fields_of(kind)
        return {"$ref": f"#/$defs/{name}"}

    def fields_of(self, kind: Any, without: Sequence[str] = ()) -> Json:
        """Return the object that a dataclass or a typed dictionary is, spelt out.

        Args:
            kind: the type.
            without: fields that are not written.
        """
        hints = get_type_hints(kind, include_extras=True)
        names = [f.name for f in fields(kind)] if is_dataclass(kind) else list(hints)
        names = [name for name in names if name not in without]
        told = _attributes(kind)
        said = {name: {"description": told[name]} for name in names if name in told}
        properties = {name: self.of(hints[name]) | said.get(name, {}) for name in names}
        required = [name for name in names if get_origin(hints[name]) is not NotRequired]
        return {"type": "object", "properties": properties, "required": required}


def _listed(names: str | list[str]) -> list[str]:
    return [names] if isinstance(names, str) else names


def _attributes(kind: Any) -> dict[str, str]:
    """What the docstring says of each attribute, on one line."""
    _, _, told = cleandoc(kind.__doc__ or "").partition("Attributes:\n")
    return {
        name: " ".join(words.split())
        for names, words in _ATTRIBUTE.findall(told)
        for name in names.split(", ")
    }
