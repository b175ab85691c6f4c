"""The house's walls: arrows between rooms point one way, and nothing heavy loads early."""

from __future__ import annotations

import ast
import gc
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "gpuscope"

GROUND = "document children outside registry renamed"
"""Every room stands on it."""

_TO_TIME = "errors hardware program cost timeline"

_TO_RUNS = f"{_TO_TIME} analysis run"

ALLOWED = {
    "document": "",
    "renamed": "",
    "children": "",
    "garbage": "",
    "errors": "",
    "outside": "errors",
    "runtime": "",
    "registry": "errors",
    "atomic": "errors",
    "hardware": "errors",
    "program": "errors",
    "cost": "errors hardware program",
    "timeline": f"{_TO_TIME} atomic garbage",
    "analysis": f"{_TO_TIME} run",
    "run": f"{_TO_TIME} analysis",
    "outcomes": _TO_RUNS,
    "prediction": f"{_TO_RUNS} outcomes",
    "on_processor": f"{_TO_RUNS} capturing",
    "kept": "errors atomic program",
    "capturing": "errors hardware program cost kept capturing_jax",
    "capturing_jax": "errors hardware program",
    "sweeping": "errors hardware program capturing prediction run",
    "api": f"{_TO_RUNS} capturing prediction on_processor sweeping",
    "loading": "errors hardware timeline analysis run",
    "measurement": f"{_TO_RUNS} atomic api loading",
    "explanation": f"{_TO_RUNS} api garbage",
    "kernel_lens": "errors hardware explanation",
    "learn": f"{_TO_RUNS} api explanation kernel_lens",
    "advice": f"{_TO_RUNS} atomic garbage runtime kept capturing prediction api loading measurement"
    " explanation",
    "planning": "errors hardware program cost timeline capturing api serving advice",
    "invariants": "errors hardware cost timeline analysis run",
    "serving": f"{_TO_RUNS} atomic capturing api loading measurement",
    "guarding": f"{_TO_RUNS} atomic api",
    "doctor": f"{_TO_TIME} analysis measurement explanation",
    "watch": "errors atomic hardware analysis run loading measurement explanation",
    "mcp": f"{_TO_RUNS} api loading explanation advice planning serving doctor views",
    "views": f"{_TO_RUNS} atomic api measurement explanation learn doctor watch advice invariants"
    " serving guarding outcomes",
    "cli": f"{_TO_RUNS} outcomes atomic garbage capturing kept api sweeping loading measurement"
    " explanation kernel_lens learn doctor watch advice planning views serving guarding mcp",
    "pytest_plugin": "errors api capturing guarding hardware program run views",
    "__main__": "cli",
}
"""What each room may import."""


def _room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@cache
def _trees() -> dict[Path, ast.Module]:
    """Every file of the package, parsed; looking for garbage among two million new nodes would
    take three times as long as making them."""
    looked = gc.isenabled()
    gc.disable()
    try:
        return {path: ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}
    finally:
        if looked:
            gc.enable()


def _statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """All statements; expressions, which hold none, are passed over."""
    nodes = [tree]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.stmt):
            yield node
        nodes += [each for each in ast.iter_child_nodes(node) if not isinstance(each, ast.expr)]


def _imports(tree: ast.Module) -> set[str]:
    found = set()
    for node in _statements(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
            if node.module == "gpuscope":
                names = [f"gpuscope.{alias.name}" for alias in node.names]
        found |= {n.split(".")[1] for n in names if n.startswith("gpuscope.")}
    return found


def test_arrows_point_one_way() -> None:
    wrong = []
    for path, tree in _trees().items():
        room = _room(path)
        if room == "__init__":
            continue  # names only, resolved when they are used
        extra = _imports(tree) - {room, "__version__", *ALLOWED[room].split(), *GROUND.split()}
        if extra:
            wrong.append(f"{path.relative_to(SOURCE)} must not import {sorted(extra)}")
    assert not wrong, "\n".join(wrong)


def _run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize("module", ["gpuscope", "gpuscope.cli.app", "gpuscope.hardware"])
def test_nothing_heavy_is_imported(module: str) -> None:
    heavy = "{'torch', 'transformers', 'pandas', 'scipy', 'sympy'}"
    out = _run(f"import sys, {module}; print({heavy} & set(sys.modules))")
    assert out.strip() == "set()"


def test_public_names_exist() -> None:
    out = _run(
        "import gpuscope as gs\n"
        "missing = [n for n in gs.__all__ if getattr(gs, n, None) is None]\n"
        "print(missing, gs.__all__ == sorted(gs.__all__))"
    )
    assert out.strip() == "[] True"


VERBS = {"measure": "measurement.sensors", "explain": "explanation", "lens": "kernel_lens.machine"}
"""Verbs, and a module of the package that does their work."""


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_a_function_before_and_after_its_use(verb: str) -> None:
    """Packages once had the verbs' names; importing anything in them hid the function."""
    out = _run(
        "import contextlib, inspect, io, pydoc, gpuscope as gs\n"
        f"before = inspect.signature(gs.{verb})\n"
        f"import gpuscope.{VERBS[verb]}\n"
        f"with contextlib.suppress(Exception): gs.{verb}('no such thing')\n"
        f"after, text = inspect.signature(gs.{verb}), pydoc.render_doc(gs.{verb})\n"
        "named = [p for p in after.parameters.values() if not p.kind.name.startswith('VAR')]\n"
        f"print(inspect.isfunction(gs.{verb}), before == after, bool(named), 'Args:' in text)"
    )
    assert out.strip() == "True True True True"


def test_no_two_test_files_share_a_name() -> None:
    """Pytest imports them by name alone: two of one name cannot run together."""
    names = [p.name for p in Path(__file__).parent.rglob("*.py") if p.name != "conftest.py"]
    assert sorted(names) == sorted(set(names))


# -- circles, lazy imports included ---------------------------------------------------------------


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


@cache
def _arrows() -> dict[str, set[str]]:
    """Every module of the package, with those that it imports, anywhere but for type checkers."""
    modules = {}
    for path, tree in _trees().items():
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = tree
    return {name: set(_imported(tree, modules.keys())) for name, tree in modules.items()}


def _imported(tree: ast.Module, modules: Collection[str]) -> Iterator[str]:
    nodes: list[ast.AST] = [tree]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in modules else node.module for name in names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif not _is_for_types(node) and not isinstance(node, ast.expr):
            nodes += ast.iter_child_nodes(node)


def _graph(place: Callable[[str], str | None]) -> dict[str, set[str]]:
    """Which places import which, by what a module belongs to; None for what does not count."""
    arrows = _arrows()
    graph: dict[str, set[str]] = {}
    for name, others in arrows.items():
        here = place(name)
        if here is not None:
            there = {place(other) for other in others & arrows.keys()}
            graph.setdefault(here, set()).update(there - {here, None})  # type: ignore[arg-type]
    return graph


def _circle(graph: dict[str, set[str]]) -> set[str]:
    """What is left when everything without an arrow out, or in, is taken away again and again."""
    left = {place: set(others) for place, others in graph.items()}
    while True:
        aimed = set().union(*left.values())
        over = {place for place, others in left.items() if not others or place not in aimed}
        if not over:
            return set(left)
        left = {place: others - over for place, others in left.items() if place not in over}


def _room_of(name: str) -> str | None:
    return name.split(".")[1] if "." in name else None


def _part_of_advice(name: str) -> str | None:
    parts = name.split(".")
    return parts[2] if parts[1:2] == ["advice"] and len(parts) > 2 else None


def _advice_module(name: str) -> str | None:
    return name if name.startswith("gpuscope.advice.") else None


def test_rooms_make_no_circle() -> None:
    assert _circle(_graph(_room_of)) == set()


@pytest.mark.parametrize("place", [_part_of_advice, _advice_module])
def test_advice_makes_no_circle(place: Callable[[str], str | None]) -> None:
    """Neither its folders nor its modules."""
    assert _circle(_graph(place)) == set()


def test_a_circle_is_found() -> None:
    assert _circle({"a": {"b"}, "b": {"a", "c"}, "c": set()}) == {"a", "b"}
