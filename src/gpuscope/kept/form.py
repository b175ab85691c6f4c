"""What was captured as bytes and back: columns of distinct values, and nothing that could run.

Every distinct value is written once. Values that hold no others come first, then those that hold
only these, and so on; those of one kind stand together, a column a field. Reading makes the types
named here and no others, so that a file that someone spoilt is an error at worst.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from importlib import import_module
from itertools import islice, repeat
from types import MappingProxyType
from typing import Any

import msgspec

from gpuscope.document import quantities
from gpuscope.document.text import Text, remade

__all__ = ["NotKeptError", "packed", "unpacked"]

_TYPES = {
    "Program": "gpuscope.program.types",
    "Op": "gpuscope.program.types",
    "TensorSpec": "gpuscope.program.types",
    "Storage": "gpuscope.program.types",
    "ModuleInfo": "gpuscope.program.types",
    "ProcessGroup": "gpuscope.program.types",
    "MeshDimension": "gpuscope.program.types",
    "GraphBreak": "gpuscope.program.types",
    "RankPrograms": "gpuscope.program.world",
    "PipelineBlocks": "gpuscope.program.pipeline.job_programs",
    "StageBlocks": "gpuscope.program.pipeline.blocks",
    "PipelineShape": "gpuscope.program.pipeline.orders",
}
"""Types of ours that a capture is made of, and where they are. What a script printed is not among
them: it is not kept."""

_SCALARS = frozenset({type(None), bool, int, float, str})

_MOST_CELLS = 50_000_000
"""More values than any file of ours has: what says so was spoilt."""


class NotKeptError(ValueError):
    """Something of which it is not certain that it would come back as it is; or a spoilt file."""


class _Ref(int):
    """The number of a value that was written before."""

    __slots__ = ()


def packed(value: object) -> bytes:
    """Return a captured program, or those of a job's ranks, as bytes.

    Raises:
        NotKeptError: it holds something that has no form here.
    """
    writer = _Writer()
    root = writer.put(value)
    try:
        return msgspec.msgpack.encode(writer.groups(root))
    except (OverflowError, TypeError, ValueError, RecursionError) as error:
        raise NotKeptError(str(error)) from error


def unpacked(data: bytes) -> Any:
    """Return what `packed` was given.

    Raises:
        NotKeptError: these are not such bytes.
    """
    collects = gc.isenabled()
    gc.disable()  # hundreds of thousands of objects that all stay
    try:
        return _read(msgspec.msgpack.decode(data))
    except (
        msgspec.DecodeError,
        ArithmeticError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
        RecursionError,
        RuntimeError,
        ImportError,
    ) as error:
        raise NotKeptError(str(error)) from error
    finally:
        if collects:
            gc.enable()


# -- writing ---------------------------------------------------------------------------------------


class _Writer:
    """Gives every distinct value a number, its kind, and what it holds."""

    def __init__(self) -> None:
        self._by_object: dict[int, _Ref] = {}
        self._by_value: dict[Any, _Ref] = {}
        self._nodes: list[tuple[int, str, tuple[Any, ...]]] = []
        self._alive: list[object] = []

    def put(self, value: Any) -> Any:
        """A plain value as it is, any other's number."""
        kind = type(value)
        if kind in _SCALARS:
            return value
        known = self._by_object.get(id(value))
        if known is None:
            known = self._by_object[id(value)] = self._numbered(*self._apart(value, kind))
            self._alive.append(value)
        return known

    def _apart(self, value: Any, kind: type) -> tuple[str, tuple[Any, ...]]:
        put = self.put
        if kind is tuple:
            return "tuple", tuple(map(put, value))
        if kind is dict or kind is MappingProxyType:
            name = "dict" if kind is dict else "mapping"
            return name, (put(tuple(value)), put(tuple(value.values())))
        if kind is frozenset:
            return "frozenset", tuple(map(put, value))
        if kind is Text:
            form, *arguments = value.made
            return "text", (form, put(tuple(arguments)))
        name = kind.__name__
        if _type_named(name) is not kind:
            raise NotKeptError(f"{kind.__module__}.{name} has no form")
        return name, tuple([put(getattr(value, field)) for field in _fields(kind)])

    def _numbered(self, kind: str, parts: tuple[Any, ...]) -> _Ref:
        # 1, 1.0 and True are equal, and so are 0.0 and -0.0.
        types = tuple(map(type, parts))
        exact = repr(parts) if float in types else None
        known = self._by_value.setdefault((kind, parts, types, exact), _Ref(len(self._nodes)))
        if known == len(self._nodes):
            held = (self._nodes[part][0] for part in parts if type(part) is _Ref)
            self._nodes.append((1 + max(held, default=-1), kind, parts))
        return known

    def groups(self, root: Any) -> list[Any]:
        """All values by depth and kind, each kind's in columns; the last one is the root."""
        if type(root) is not _Ref:
            raise NotKeptError("nothing was captured")
        together: dict[tuple[int, str], list[int]] = {}
        for number, (level, kind, _) in enumerate(self._nodes):
            together.setdefault((level, kind), []).append(number)
        order = sorted(together)
        place = [_Ref(0)] * len(self._nodes)
        at = 0
        for key in order:
            for number in together[key]:
                place[number] = _Ref(at)
                at += 1
        if place[root] != at - 1:
            raise NotKeptError("what was captured is part of itself")
        return [
            [kind, _columns(kind, [self._nodes[n][2] for n in together[level, kind]], place)]
            for level, kind in order
        ]


def _columns(kind: str, rows: list[tuple[Any, ...]], place: list[_Ref]) -> list[Any]:
    if kind in ("tuple", "frozenset"):
        return [list(map(len, rows)), _column([cell for row in rows for cell in row], place)]
    return [_column(column, place) for column in zip(*rows, strict=True)]


def _column(cells: Sequence[Any], place: list[_Ref]) -> list[Any]:
    """Plain values as they are; else numbers; a mixed column with a flag for each."""
    types = set(map(type, cells))
    if _Ref not in types:
        return [0, list(cells)]
    if types == {_Ref}:
        return [1, [int(place[cell]) for cell in cells]]
    flags = [type(cell) is _Ref for cell in cells]
    return [2, [int(place[c]) if f else c for c, f in zip(cells, flags, strict=True)], flags]


# -- reading ---------------------------------------------------------------------------------------


def _read(groups: list[Any]) -> Any:
    values: list[Any] = []
    for kind, columns in groups:
        values.extend(_made(kind, columns, values))
        if len(values) > _MOST_CELLS:
            raise NotKeptError("too many values")
    return values[-1]


def _made(kind: str, columns: list[Any], values: list[Any]) -> Iterable[Any]:
    if kind in ("tuple", "frozenset"):
        lengths, cells = columns[0], _cells(columns[1], values)
        if sum(lengths) != len(cells) or min(lengths) < 0:
            raise NotKeptError("lengths that do not fit")
        row = iter(cells)
        make: Callable[[Iterable[Any]], Any] = tuple if kind == "tuple" else frozenset
        return [make(islice(row, length)) for length in lengths]
    filled = [_cells(column, values) for column in columns]
    if len(set(map(len, filled))) != 1:
        raise NotKeptError("columns of several lengths")
    if kind in ("dict", "mapping"):
        dicts = [dict(zip(k, v, strict=True)) for k, v in zip(*filled, strict=True)]
        return dicts if kind == "dict" else map(MappingProxyType, dicts)
    if kind == "text":
        return [remade(form, *arguments) for form, arguments in zip(*filled, strict=True)]
    cls = _type_named(kind)
    if cls is None or len(filled) != len(_fields(cls)):
        raise NotKeptError(f"no such type: {kind}")
    for cells, allowed in zip(filled, _allowed(cls), strict=True):
        if allowed is not None and not allowed.issuperset(map(type, cells)):
            raise NotKeptError(f"{kind} with a field of another type")
    return map(cls, *filled) if filled else repeat(cls(), 1)


def _cells(column: list[Any], values: list[Any]) -> list[Any]:
    how, cells, *flags = column
    if how == 0:
        if not _SCALARS.issuperset(map(type, cells)):
            raise NotKeptError("not a plain value")
        return list(cells)
    if how == 1:
        if cells and min(cells) < 0:
            raise NotKeptError("a number that cannot be")
        return [values[cell] for cell in cells]
    if any(flag and cell < 0 for cell, flag in zip(cells, flags[0], strict=True)):
        raise NotKeptError("a number that cannot be")
    return [values[cell] if flag else cell for cell, flag in zip(cells, flags[0], strict=True)]


# -- types -----------------------------------------------------------------------------------------


@cache
def _type_named(name: str) -> type | None:
    """One of ours, or a quantity in a text."""
    if name in _TYPES:
        found: type = getattr(import_module(_TYPES[name]), name)
        return found
    kind = getattr(quantities, name, None)
    return kind if isinstance(kind, type) and issubclass(kind, quantities.Quantity) else None


@cache
def _fields(cls: Any) -> tuple[str, ...]:
    """Names of the fields, in the order in which the type takes them."""
    own = fields(cls)
    if not all(field.init and not field.kw_only for field in own):
        raise NotKeptError(f"{cls.__name__} is not made of its fields")
    return tuple(field.name for field in own)


_PLAIN: Mapping[str, frozenset[type]] = {
    "tuple": frozenset({tuple}),
    "Mapping": frozenset({dict, MappingProxyType}),
    "frozenset": frozenset({frozenset}),
    "Literal": frozenset({str}),
    "Phase": frozenset({str}),
    "Category": frozenset({str}),
    "str": frozenset({str, Text}),
    "int": frozenset({int}),
    "bool": frozenset({bool}),
    "float": frozenset({float, int}),
    "None": frozenset({type(None)}),
}
"""What a field may hold, by the first word of its annotation."""


@cache
def _allowed(cls: Any) -> tuple[frozenset[type] | None, ...]:
    """The types that each field may hold; None where its annotation says nothing known here."""
    found: list[frozenset[type] | None] = []
    for field in fields(cls):
        words = [part.partition("[")[0] for part in str(field.type).split(" | ")]
        known = [_PLAIN[word] for word in words if word in _PLAIN]
        found.append(frozenset().union(*known) if len(known) == len(words) else None)
    return tuple(found)
