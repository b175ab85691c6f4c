"""Kernel models are found by their operators' names, in whichever file or room they stand."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import gpuscope.cost

ROOM = Path(gpuscope.cost.__file__).parent
SOUGHT = """
import json, sys
from gpuscope.cost.registry import MODELS
print(json.dumps([name for name in json.load(sys.stdin) if MODELS.find(name) is None]))
"""


def _named(path: Path) -> Iterator[str]:
    """Operators that a file has models of."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.FunctionDef):
            continue
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "kernel_model":
                yield from (arg.value for arg in decorator.args if isinstance(arg, ast.Constant))


def test_every_model_is_found_though_nobody_has_imported_its_file() -> None:
    """Sends of a pipeline took no time while their file stood in a room that did not load it."""
    names = sorted({name for path in ROOM.rglob("*.py") for name in _named(path)})
    assert {"aten::mm", "aten::convolution", "c10d::send"} <= set(names)
    lost = subprocess.run(
        [sys.executable, "-c", SOUGHT], input=json.dumps(names), capture_output=True, text=True
    )
    assert json.loads(lost.stdout) == [], lost.stderr
