"""Constants live in the catalogue: kernel models look them up by name, and hold no defaults."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpuscope.cost
from gpuscope.cost.registry import Constants
from gpuscope.hardware import Calibration, Distance, calibration_for, device

FILES = sorted(Path(gpuscope.cost.__file__).parent.rglob("*.py"))
LOOK_UPS = ("value", "spread", "sides", "entry")
KNOWN = calibration_for(device("h200")).names()
ONLY_IF_KNOWN = {"device.scale", "host.further.kernel_s", "host.further.product_s"}
"""Only calibrations of users' machines have these; the models ask for them first."""


def is_look_up(node: ast.AST) -> bool:
    """`constants.value(...)` and its like, or a function's short name `get` for it."""
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Name):
        return node.func.id == "get"
    if not isinstance(node.func, ast.Attribute) or node.func.attr not in LOOK_UPS:
        return False
    return ast.unparse(node.func.value).endswith(("constants", "calibration"))


def look_ups(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call) and is_look_up(node))


def guessed(tree: ast.AST) -> list[str]:
    """Look-ups with a default, and numbers that stand in where a constant is not known."""
    found = [
        ast.unparse(call)
        for call in look_ups(tree)
        if call.keywords
        or any(
            isinstance(part, ast.Constant) and isinstance(part.value, (int, float))
            for argument in call.args
            if not isinstance(argument, ast.JoinedStr)
            for part in ast.walk(argument)
        )
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.IfExp) and ".known(" in ast.unparse(node.test):
            found += [ast.unparse(node)] * isinstance(node.orelse, ast.Constant)
    return found


@pytest.mark.parametrize(
    "text",
    [
        "work.constants.value('a.b', 0.5)",
        "constants.spread(f'{a}.b', 3e-6 if wide else 2e-6)",
        "get('a.b', 1.0)",
        "constants.value('a.b') if constants.known('a.b') else 0.5",
    ],
)
def test_a_default_is_seen(text: str) -> None:
    assert guessed(ast.parse(text))


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.relative_to(FILES[0].parent).as_posix())
def test_no_model_has_a_default(file: Path) -> None:
    assert guessed(ast.parse(file.read_text())) == []


@pytest.mark.parametrize("kind", [Calibration, Constants])
@pytest.mark.parametrize("name", LOOK_UPS)
def test_look_ups_take_names_only(kind: type, name: str) -> None:
    if kind is Calibration and name == "sides":
        return
    _, *given = inspect.signature(getattr(kind, name)).parameters.values()
    assert all(p.default is inspect.Parameter.empty for p in given)
    assert not hasattr(kind, "get")


def pattern_of(node: ast.expr) -> str | None:
    """A name as a regular expression; None where it is put together elsewhere."""
    if isinstance(node, ast.Constant):
        return re.escape(str(node.value))
    if isinstance(node, ast.JoinedStr):
        parts = (
            pattern_of(part) if isinstance(part, ast.Constant) else ".+" for part in node.values
        )
        return "".join(map(str, parts))
    return None


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.relative_to(FILES[0].parent).as_posix())
def test_the_catalogue_has_what_is_looked_up(file: Path) -> None:
    """Of several names the last, most general one."""
    if file.parts[-2:] == ("matmul", "machine.py"):
        return  # names of two parts, see below
    for call in look_ups(ast.parse(file.read_text())):
        pattern = pattern_of(call.args[-1])
        if pattern is not None and pattern.replace("\\", "") not in ONLY_IF_KNOWN:
            assert any(re.fullmatch(pattern, name) for name in KNOWN), ast.unparse(call)


def test_the_catalogue_has_every_general_rate_of_products() -> None:
    file = next(f for f in FILES if f.parts[-2:] == ("matmul", "machine.py"))
    for call in look_ups(ast.parse(file.read_text())):
        if isinstance(call.func, ast.Name) and isinstance(call.args[0], ast.Constant):
            assert f"gemm.{call.args[0].value}" in KNOWN


def test_the_first_name_that_is_known_counts() -> None:
    constants = Constants(calibration_for(device("h200")))
    assert constants.value("fused.poi.scale", "kernel.scale") == 1.0
    assert constants.spread("fused.poi.scale", "kernel.scale") == pytest.approx(0.3)
    own = constants.value("matmul.bf16.efficiency")
    assert constants.value("matmul.bf16.efficiency", "gemm.efficiency") == own


def test_what_is_lent_is_not_found_on_the_device() -> None:
    carried = Constants(calibration_for(device("a100-40gb")))
    assert carried.calibration.distance is not Distance.SAME_DEVICE
    assert carried.known("fused.floor_s")
    assert not carried.found("fused.floor_s")
    assert not carried.own("fused.floor_s")
