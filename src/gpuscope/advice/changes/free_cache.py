"""The allocator's cache is kept: no `torch.cuda.empty_cache()` in the step.

Each call waits for the device and gives memory back to the driver, which the next step asks for
again with `cudaMalloc`, a call that waits for the device too.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gpuscope.advice.change import Change
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Edit, Fit, Seen
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["FreeCache"]


class FreeCache(Change):
    """Leave the allocator's cache alone."""

    name = "free-cache"
    title = Text("no emptying of the allocator's cache")
    group = "memory"
    rank = 15

    def fits(self, case: ChangeCase) -> Fit:
        """It needs a call of `empty_cache` in the user's file."""
        if case.seen is None or not case.seen.file:
            why = Text("The source is not known.")
            return Fit(False, why, relevant=False)
        lines = [call.lineno for call in _calls(_text(case.seen.file))]
        if not lines:
            why = Text("The code does not empty the cache.")
            return Fit(False, why, relevant=False)
        where = f"{Path(case.seen.file).name}:{lines[0]}"
        return Fit(
            True,
            Text(
                "{where} empties the allocator's cache: the device is waited for, and memory is "
                "asked for anew. A capture does not show that cost.",
                where=where,
            ),
        )

    def install(self, live: Live) -> None:
        """Calls of `torch.cuda.empty_cache` do nothing."""
        import torch

        original = torch.cuda.empty_cache

        def empty_cache() -> None:
            """Nothing is given back."""

        live.set(torch.cuda, "empty_cache", empty_cache)
        live.set_in_user_modules("empty_cache", original, empty_cache)

    def risk(self, case: ChangeCase) -> Text | None:
        """Others on the same device."""
        return Text(
            "Memory that the process does not use stays with it: other programs on the device "
            "cannot have it."
        )

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """The calls become `pass`."""
        if seen.file not in sources:
            return None
        text = sources[seen.file]
        lines = text.splitlines(keepends=True)
        found = []
        for call in _calls(text):
            line = lines[call.lineno - 1]
            indent = line[: len(line) - len(line.lstrip())]
            if call.lineno != call.end_lineno or line[len(indent) :].strip() != ast.unparse(call):
                return None  # more stands on the line than the call
            found.append(Edit(seen.file, call.lineno, call.lineno, f"{indent}pass\n"))
        return tuple(found) or None


def _calls(text: str) -> list[ast.Expr]:
    """Statements that call `empty_cache`, in the order of their lines."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return []
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func).rpartition(".")[2] == "empty_cache"
    ]
    return sorted(found, key=lambda node: node.lineno)


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


register(FreeCache())
