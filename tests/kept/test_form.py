from __future__ import annotations

import math
import random
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from gpuscope.document.quantities import Number, Seconds
from gpuscope.document.text import Text, plural
from gpuscope.kept.form import NotKeptError, packed, unpacked
from gpuscope.program.types import ModuleInfo, Op, Printed, ProcessGroup, Program, Storage
from gpuscope.program.types import TensorSpec as Spec
from gpuscope.program.world import RankPrograms

ARGUMENTS: dict[str, Any] = {
    "alpha": 1,
    "beta": 1.0,
    "flag": True,
    "none": None,
    "zero": -0.0,
    "far": math.inf,
    "dims": (0, (1, -1), ()),
    "name": "a\udcff",
}


def _program(**changed: Any) -> Program:
    spec = Spec((2, 3), (3, 1), "bfloat16", storage=7)
    ops = tuple(
        Op(n, "aten::mm", inputs=(spec, spec), outputs=(spec,), args=ARGUMENTS, waits=(-1, n))
        for n in range(3)
    )
    program = Program(
        "x",
        ops,
        storages=(Storage(7, 12, "activation", -1, None), Storage(8, 12, "gradient", 0, 2)),
        modules=(ModuleInfo("", "Net", 3),),
        assumptions=(
            "plain",
            Text("{n} of {s}", n=Number(3, ","), s=Seconds(0.5)),
            plural("{count} op", "{count} ops", 2),
        ),
        settings=MappingProxyType({"tf32_matmul": False}),
        groups=(ProcessGroup("g", "dp", (0, 1)),),
    )
    return replace(program, **changed)


def _told(value: Any) -> Any:
    """A value with the type of everything in it: 1 and True differ, and a text and a string."""
    if isinstance(value, Text):
        return Text, value.made, str(value)
    if isinstance(value, (dict, MappingProxyType)):
        return type(value), [(_told(k), _told(v)) for k, v in value.items()]
    if isinstance(value, (tuple, frozenset)):
        return type(value), [_told(each) for each in value]
    if hasattr(value, "__dataclass_fields__"):
        return type(value), [_told(getattr(value, name)) for name in value.__dataclass_fields__]
    return type(value), repr(value)


def test_what_was_captured_comes_back_as_it_was() -> None:
    ranks = RankPrograms((_program(), _program(rank=1, name="y")), ((0, 2), (1, 3)))
    # A lone surrogate has no form in UTF-8.
    plain = {k: v for k, v in ARGUMENTS.items() if k != "name"}
    ops = tuple(replace(op, args=plain) for op in ranks.programs[0].ops)
    ranks = replace(ranks, programs=tuple(replace(p, ops=ops) for p in ranks.programs))
    back = unpacked(packed(ranks))
    assert _told(back) == _told(ranks)
    assert back.programs[0].assumptions[1].to("zh") == ranks.programs[0].assumptions[1].to("zh")


class _Name(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "odd",
    [
        {"args": ARGUMENTS},
        {"args": {"x": 2**70}},
        {"args": {"x": 1j}},
        {"args": {"x": [1]}},
        {"args": {"x": object()}},
        {"name": _Name("aten::mm")},
    ],
    ids=["surrogate", "long", "complex", "list", "object", "string of another type"],
)
def test_what_has_no_form_is_refused(odd: dict[str, Any]) -> None:
    with pytest.raises(NotKeptError):
        packed(_program(ops=(replace(_program().ops[0], **odd),)))
    with pytest.raises(NotKeptError):
        packed(_program(ops=(), printed=Printed("loss 3", "h200")))


def test_a_type_that_is_not_listed_is_never_made() -> None:
    for name in ("Path", "Quantity2", "Text", "Popen"):
        with pytest.raises(NotKeptError):
            unpacked(msgspec.msgpack.encode([[name, [[0, ["x"]]]]]))


def test_a_field_of_another_type_is_refused() -> None:
    groups = msgspec.msgpack.decode(packed(_program(ops=())))
    kind, columns = next(group for group in groups if group[0] == "Storage")
    columns[1] = [0, ["12", "12"]]
    assert kind == "Storage"
    with pytest.raises(NotKeptError):
        unpacked(msgspec.msgpack.encode(groups))


def test_spoilt_bytes_are_an_error_of_ours_or_another_value() -> None:
    plain = {k: v for k, v in ARGUMENTS.items() if k != "name"}
    whole = packed(_program(ops=tuple(replace(op, args=plain) for op in _program().ops)))
    draw = random.Random(5)
    refused = 0
    for _ in range(400):
        data = bytearray(whole)
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        try:
            unpacked(bytes(data[: draw.choice((len(data), draw.randrange(len(data))))]))
        except NotKeptError:
            refused += 1
    assert refused > 200
