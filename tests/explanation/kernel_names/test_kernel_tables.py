"""The tables of kernel names: every entry is whole, and groups are read by what they are called."""

from __future__ import annotations

import re
import string
from pathlib import Path
from typing import Any

import pytest

from gpuscope.document.text import render
from gpuscope.explanation import kernel_names
from gpuscope.explanation.kernel_names import FIELDS, words
from gpuscope.explanation.kernel_names.functions import libraries
from gpuscope.explanation.kernel_names.tables import table
from gpuscope.explanation.kernel_names.tokens import read_tokens

FILES = sorted(path.stem for path in Path(kernel_names.__file__).parent.glob("*.toml"))
RULES = [(file, rule) for file in FILES for rule in words.read_table(file).get("rules", ())]


def braces(text: str) -> set[str | None]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def test_every_reader_with_tokens_has_a_table() -> None:
    assert len(RULES) > 130
    assert {"nvjet", "xmma", "cutlass", "nccl", "tensile"} <= set(FILES)


@pytest.mark.parametrize(("file", "rule"), RULES, ids=lambda v: v if isinstance(v, str) else "")
def test_rules_are_whole(file: str, rule: dict[str, Any]) -> None:
    groups = set(re.compile(rule["match"]).groupindex)
    assert rule["field"] in FIELDS
    told = rule.keys() & {"text", "name", "value"}
    assert len(told) == 1
    filled = {rule["value"]} if "value" in rule else braces(rule[told.pop()])
    assert filled == groups  # no group for nothing, no brace that stays empty


def test_functions_are_whole() -> None:
    every = [function for library in libraries() for function in library.functions]
    assert len(every) > 90
    assert all(function.source and function.what.endswith(".") for function in every)
    given = [a for function in every for a in function.arguments if a is not None]
    assert {argument.field for argument in given} <= FIELDS.keys()
    assert all(braces(argument.text) == {"value"} for argument in given if argument.text)


def test_groups_are_read_by_their_names() -> None:
    pieces, unread = read_tokens("warpsize2x2x1_alignc4_relu_nn", table("xmma").rules)
    assert [piece.value for piece in pieces] == [
        "4 (2x2x1)",
        "result: multiples of 4 elements",
        "ReLU",
        "A as stored, B as stored (column-major view)",
    ]
    assert unread == ()
    core, _ = read_tokens("s16816gemm", table("cutlass").rules)
    assert core[0].value == "matrix product, added up in fp32, 16×8×16 instructions"
    assert "矩阵乘" in render(core[0].value, "zh")
