"""What a build function of a JAX step can be asked for: its arguments, read without running it."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuscope.program.models.settings import WorkloadOptions

__all__ = ["BuildArguments", "arguments_of"]


@dataclass(frozen=True, slots=True)
class BuildArguments:
    """Arguments of a build function.

    Attributes:
        name: as the user typed the workload, or the function's name.
        function: its name.
        defaults: plain values by the argument's name: as asked, or its default.
        text: of its file; "" where unknown.
    """

    name: str
    function: str = "build"
    defaults: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""

    @property
    def batch(self) -> tuple[str, int] | None:
        """The argument that is the batch and its default; None without one."""
        for name in ("batch", "batch_size"):
            value = self.defaults.get(name)
            if isinstance(value, int) and not isinstance(value, bool):
                return name, value
        return None


def arguments_of(workload: object, options: WorkloadOptions | None = None) -> BuildArguments:
    """The arguments of a build function, or of the one that `file.py:build` names.

    Nothing is run: a default that is no plain value is left out.

    Args:
        workload: as `gpuscope.predict` takes it.
        options: what the function is asked for.
    """
    found = _defaults_of(workload)
    asked = {name: getattr(options, name, None) for name in found.defaults}
    asked["batch_size"] = getattr(options, "batch", None)
    given = {name: asked.get(name) or value for name, value in found.defaults.items()}
    return replace(found, defaults=given)


def _defaults_of(workload: object) -> BuildArguments:
    if isinstance(workload, str):
        path, _, function = workload.rpartition(":")
        file = Path(path or workload)
        name = function if path else "build"
        text = file.read_text("utf-8", "replace") if file.is_file() else ""
        return BuildArguments(workload, name, _written(text, name), text)
    name = getattr(workload, "__name__", "build")
    try:
        parameters = inspect.signature(workload).parameters if callable(workload) else {}
        text = inspect.getsource(inspect.getmodule(workload) or type(workload))
    except (TypeError, ValueError, OSError):
        parameters, text = {}, ""
    found = {
        key: each.default
        for key, each in parameters.items()
        if isinstance(each.default, (int, float, str))
    }
    return BuildArguments(name, name, found, text)


def _written(text: str, function: str) -> dict[str, Any]:
    """Plain defaults of a function that stands at the top level of a file."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            given, late = node.args.defaults, node.args.kwonlyargs
            pairs = [
                *zip((node.args.posonlyargs + node.args.args)[-len(given) :], given, strict=False),
                *zip(late, node.args.kw_defaults, strict=True),
            ]
            return {
                argument.arg: value.value
                for argument, value in pairs
                if isinstance(value, ast.Constant) and isinstance(value.value, (int, float, str))
            }
    return {}
