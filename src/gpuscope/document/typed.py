"""The door for plain data from outside: typed values come in, all else is refused by its place."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sized
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Annotated, Any, TypeVar, get_args, get_origin

import msgspec
from msgspec import inspect

from gpuscope.document.text import Text

Made = TypeVar("Made")

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""What a column of whole numbers holds."""

LARGEST = 1e40
"""Beyond every figure in SI units; products of a few of them are still finite."""

_WORDS: Mapping[str, Text] = {
    "int": Text("whole number"),
    "float": Text("number"),
    "str": Text("text"),
    "bool": Text("true or false"),
    "array": Text("list"),
    "object": Text("object"),
    "null": Text("null"),
}
"""JSON's types, as msgspec names them, in words."""

_EXPECTED = re.compile(r"^Expected `([^`]+)`, got `([^`]+)`$")
_LENGTH = re.compile(r"^Expected `array` of (?:at (?:least|most) )?length (\d+), got (\d+)$")
_MISSING = re.compile(r"^Object missing required field `([^`]+)`$")
_ENUM = re.compile(r"^Invalid enum value (.+)$")


class MisfitError(ValueError):
    """Plain data that does not fit.

    Attributes:
        place: where it stands: "analysis.classes[3].time_s"; "" for the whole.
        reason: what is wrong with it.
    """

    def __init__(self, place: str, reason: str) -> None:
        self.place = place
        self.reason = reason
        super().__init__(Text("{place}: {reason}", place=place, reason=reason) if place else reason)


def typed(kind: type[Made], data: object, place: str = "") -> Made:
    """Make a value of a type from plain data: dataclasses, structs, tuples, mappings, arrays.

    Null is NaN where a number must stand (as `plain` writes it). Strings may be `Text`; they stay.

    Args:
        kind: the type.
        data: as a JSON reader returns it.
        place: where the data stands in its file, for errors.

    Raises:
        MisfitError: something in it is missing, or of another type or value.
    """
    data = _with_nan(_inspected(kind), data)  # type: ignore[arg-type]
    try:
        return _converted(kind, data)
    except msgspec.ValidationError as error:
        reason, *places = str(error).split(" - at ")
        inside = "".join(_bare(each) for each in reversed(places))
        raise _misfit(_joined(place, _spelt_out(kind, data, inside)), reason) from error


def check_lengths(columns: Mapping[str, Sized], place: str) -> None:
    """Refuse columns of different lengths.

    Args:
        columns: by name.
        place: where their table stands.

    Raises:
        MisfitError: one is longer or shorter than the first.
    """
    first = next(iter(columns))
    for name, column in columns.items():
        if len(column) != len(columns[first]):
            raise MisfitError(
                f"{place}.{name}",
                Text(
                    "{rows} rows, but '{first}' has {others}: columns that are not equally long",
                    rows=len(column),
                    first=first,
                    others=len(columns[first]),
                ),
            )


def check_range(column: Any, least: int, end: int, place: str) -> None:
    """Refuse whole numbers below `least`, or from `end` on: they point outside of a table.

    Raises:
        MisfitError: names the first of them.
    """
    import numpy as np  # not for a door that no column passes: --help and listings

    try:
        column = np.asarray(column, np.int64)
    except OverflowError as error:
        raise MisfitError(place, Text("a number points outside")) from error
    wrong = np.flatnonzero((column < least) | (column >= end))
    if len(wrong):
        value = int(column[wrong[0]])
        raise MisfitError(f"{place}[{wrong[0]}]", Text("{value} points outside", value=value))


def check_figures(value: object, place: str) -> None:
    """Refuse numbers, anywhere inside a typed value, that no figure has.

    Not a number stands for what was not read; infinity and what is beyond `LARGEST`, or as far
    below one, would end in an overflow or in a division by what is nearly zero.

    Raises:
        MisfitError: names the first of them.
    """
    if isinstance(value, bool | str) or value is None:
        return
    if isinstance(value, int | float):
        size = abs(value)
        if size == size and not (size == 0 or 1 / LARGEST <= size <= LARGEST):
            raise MisfitError(place, Text("a number that no figure has"))
    elif _is_array(type(value)):
        column: Any = value
        if column.dtype.kind == "f":
            sizes = abs(column)
            wrong = (sizes > LARGEST) | ((sizes > 0) & (sizes < 1 / LARGEST))
            if wrong.any():
                at = int(wrong.reshape(-1).argmax())
                raise MisfitError(f"{place}[{at}]", Text("a number that no figure has"))
    elif is_dataclass(value) and not isinstance(value, type):
        for each in fields(value):
            check_figures(getattr(value, each.name), _joined(place, f".{each.name}"))
    elif isinstance(value, Mapping):
        for key, each in value.items():
            check_figures(each, f"{place}[{key}]")
    elif isinstance(value, tuple | list):
        for number, each in enumerate(value):
            check_figures(each, f"{place}[{number}]")


def _is_array(kind: object) -> bool:
    """Whether a type is numpy's, which may not have been imported."""
    return getattr(kind, "__name__", "") == "ndarray"


def _converted(kind: type[Made], data: object) -> Made:
    return msgspec.convert(data, kind, str_keys=True, dec_hook=_column)


def _column(kind: Any, data: Any) -> Any:
    """A numpy array, of one axis or two; any plain value where the type says no more."""
    if not _is_array(get_origin(kind)):
        return data
    import numpy as np

    dtype = get_args(get_args(kind)[1])[0]
    item: Any = float | None if issubclass(dtype, np.floating) else Int64
    rows = isinstance(data, list) and bool(data) and isinstance(data[0], list)
    try:
        values = msgspec.convert(data, list[list[item]] if rows else list[item])
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error  # msgspec adds where the column stands
    return np.array(values, dtype)  # None becomes NaN


_inspected = cache(inspect.type_info)


def _with_nan(kind: inspect.Type, data: Any) -> Any:
    """The data with NaN for null where the type is a number, and 3 for 3.0 where it is whole."""
    if isinstance(data, int | str) or (isinstance(data, float) and not data.is_integer()):
        return data  # what most data is, without a look at its type
    match kind, data:
        case inspect.FloatType(), None:
            return math.nan
        case inspect.IntType(), float() if data.is_integer():
            return int(data)
        case inspect.UnionType(), _ if data is not None:
            first = next(each for each in kind.types if not isinstance(each, inspect.NoneType))
            return _with_nan(first, data)
        case inspect.VarTupleType() | inspect.ListType(), list():
            return [_with_nan(kind.item_type, each) for each in data]
        case inspect.TupleType(), list():
            pairs = zip(kind.item_types, data, strict=False)
            return [*(_with_nan(*pair) for pair in pairs), *data[len(kind.item_types) :]]
        case inspect.DictType(), Mapping():
            return {key: _with_nan(kind.value_type, value) for key, value in data.items()}
        case inspect.DataclassType() | inspect.StructType(), Mapping():
            own = _fields(kind.cls)
            return {key: _with_nan(own[key], data[key]) for key in data if key in own}
    return data


@cache
def _fields(kind: Any) -> dict[str, inspect.Type]:
    """The types of a type's fields, by their names in data."""
    known: Any = _inspected(kind)
    return {each.encode_name: each.type for each in known.fields}


def _bare(place: str) -> str:
    """A place of msgspec's ("`key` in `$.at_peak`") without its marks."""
    return place.rpartition("`$")[2].strip("`")


def _joined(place: str, inside: str) -> str:
    return f"{place}{inside}" if place else inside.removeprefix(".")


def _spelt_out(kind: Any, data: Any, path: str) -> str:
    """A path with the keys of mappings, for which msgspec says "[...]"."""
    first, *others = path.split("[...]")
    table, found = _at(data, first), first
    for other in others:
        key = _wrong_key(kind, data, table)
        if key is None:
            return path
        table, found = _at(table[key], other), f"{found}[{key}]{other}"
    return found


def _at(data: Any, path: str) -> Any:
    """What stands at a path of names and indices; None where it ends before."""
    for step in re.findall(r"[^.\[\]]+", path):
        if not isinstance(data, list | dict):
            return None
        data = data[int(step)] if isinstance(data, list) else data.get(step)
    return data


def _wrong_key(kind: Any, data: Any, table: dict[str, Any]) -> str | None:
    """The key of a mapping within the data that does not fit even alone; None for none."""
    every = dict(table)
    try:
        for key, value in every.items():
            table.clear()
            table[key] = value
            try:
                _converted(kind, data)
            except msgspec.ValidationError:
                return key
        return None
    finally:
        table.clear()
        table.update(every)


def _misfit(place: str, reason: str) -> MisfitError:
    """The error for what msgspec says of a place."""
    if found := _MISSING.match(reason):
        return MisfitError(_joined(place, f".{found[1]}"), Text("missing"))
    if found := _EXPECTED.match(reason):
        wanted, given = (_WORDS.get(each.split(" | ")[0], each) for each in found.groups())
        reason = Text("{wanted} expected, not {given}", wanted=wanted, given=given)
    elif found := _LENGTH.match(reason):
        wanted, given = found.groups()
        reason = Text("list of {wanted} expected, not of {given}", wanted=wanted, given=given)
    elif found := _ENUM.match(reason):
        reason = Text("{value} is not one of the known words", value=found[1])
    return MisfitError(place, reason)
