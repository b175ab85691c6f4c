"""The house's walls: arrows between rooms point one way, and nothing heavy loads early."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "gpuscope"

ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "atomic": {"errors"},
    "verb": set(),
    "hardware": {"errors"},
    "program": {"errors"},
    "cost": {"errors", "hardware", "program"},
    "timeline": {"errors", "atomic", "hardware", "program", "cost"},
    "analysis": {"errors", "hardware", "program", "cost", "timeline", "run"},
    "run": {"errors", "program", "timeline", "analysis", "views"},
    "prediction": {"errors", "hardware", "program", "cost", "timeline", "analysis", "run"},
    "capturing": {"errors", "hardware", "program"},
    "api": {
        "errors", "hardware", "program", "cost", "timeline", "analysis", "run", "capturing",
        "prediction",
    },
    # Like `run`, it meets the views' document format when a saved run is asked for.
    "loading": {"errors", "hardware", "timeline", "analysis", "run", "views"},
    "measure": {
        "errors", "atomic", "hardware", "program", "cost", "timeline", "analysis", "run", "api",
        "loading", "verb",
    },
    "explain": {
        "errors", "hardware", "program", "cost", "timeline", "analysis", "run", "api", "verb",
    },
    "lens": {"errors", "hardware", "explain", "verb"},
    "learn": {
        "errors", "hardware", "program", "cost", "timeline", "analysis", "run", "api", "explain",
        "lens",
    },
    "advice": {
        "errors", "atomic", "hardware", "program", "cost", "timeline", "analysis", "run",
        "capturing", "prediction", "api", "loading", "measure", "explain", "verb",
    },
    "doctor": {
        "errors", "hardware", "explain", "cost", "program", "measure", "analysis", "timeline",
    },
    "watch": {
        "errors", "atomic", "hardware", "explain", "measure", "loading", "run", "analysis",
    },
    "views": {
        "errors", "atomic", "hardware", "program", "cost", "timeline", "analysis", "run", "api",
        "measure", "explain", "learn", "doctor", "watch", "advice",
    },
    "cli": {
        "errors", "atomic", "hardware", "program", "cost", "timeline", "analysis", "run", "api",
        "measure", "views", "loading", "explain", "lens", "learn", "doctor", "watch", "advice",
    },
    "__main__": {"cli"},
}  # fmt: skip


def _room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
            if node.module == "gpuscope":
                names = [f"gpuscope.{alias.name}" for alias in node.names]
        found |= {n.split(".")[1] for n in names if n.startswith("gpuscope.")}
    return found


@pytest.mark.parametrize(
    "path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE))
)
def test_arrows_point_one_way(path: Path) -> None:
    room = _room(path)
    if room == "__init__":
        return  # names only, resolved when they are used
    extra = _imports(path) - {room} - ALLOWED[room] - {"__version__"}
    assert not extra, f"{room} must not import {sorted(extra)}"


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


def test_the_verb_survives_its_package() -> None:
    """`gpuscope.measure` is a package too; importing what is in it must not hide the verb."""
    out = _run(
        "import gpuscope as gs\n"
        "import gpuscope.measure.sensors\n"
        "import gpuscope.explain.types\n"
        "print(callable(gs.measure), callable(gs.explain), callable(gs.predict))"
    )
    assert out.strip() == "True True True"


def test_no_two_test_files_share_a_name() -> None:
    """Pytest imports them by name alone: two of one name cannot run together."""
    names = [p.name for p in Path(__file__).parent.rglob("*.py") if p.name != "conftest.py"]
    assert sorted(names) == sorted(set(names))
