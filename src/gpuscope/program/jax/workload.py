"""A JAX function as a workload: which files are JAX's, and what `predict` captures of them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.program.types import Program
from gpuscope.program.world import RankPrograms

if TYPE_CHECKING:
    from gpuscope.program.jax.compiling import Target
    from gpuscope.program.jax.lowering import Lowered
    from gpuscope.program.models.user_file import UserBuild

__all__ = [
    "captured",
    "is_jax",
    "is_jax_build",
    "is_jax_file",
    "is_jax_step",
    "is_jitted",
    "lowered_file",
]

_JAX = frozenset(("jax", "flax", "optax", "haiku", "equinox"))


def is_jax(workload: object) -> bool:
    """Whether JAX is to trace it: a file, a build function or a jitted one (JAX stays unloaded)."""
    if isinstance(workload, str):
        path = workload.rpartition(":")[0] or workload
        return path.endswith(".py") and is_jax_file(Path(path))
    return is_jax_step(workload) or is_jax_build(workload)


def is_jax_file(path: Path) -> bool:
    """Whether a file imports JAX (or what is built on it) and not torch; it is not run."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return False
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return bool(names & _JAX) and "torch" not in names


def is_jax_build(workload: object) -> bool:
    """Whether a function's module has JAX among its names, and not torch."""
    inner: Any = workload
    while hasattr(inner, "func"):  # functools.partial
        inner = inner.func
    names = getattr(inner, "__globals__", None)
    if not isinstance(names, dict):
        return False
    roots = {
        str(getattr(each, "__name__", "")).partition(".")[0]
        for each in names.values()
        if type(each).__name__ == "module"
    }
    return bool(roots & _JAX) and "torch" not in roots


def is_jitted(value: object) -> bool:
    """Whether it is what `jax.jit` returns (told without importing JAX)."""
    return hasattr(value, "trace") and hasattr(value, "lower") and callable(value)


def is_jax_step(workload: object) -> bool:
    """Whether it is a jitted function, or a pair of one and its arguments."""
    if isinstance(workload, tuple) and len(workload) == 2:
        return is_jitted(workload[0]) or isinstance(workload[1], tuple)
    return is_jitted(workload) and type(workload).__module__.startswith("jax")


def captured(workload: Any, target: Target) -> Program | RankPrograms:
    """Lower, compile and read a JAX step of this process.

    Args:
        workload: a build function, or a pair of a jitted function and its arguments.
        target: what it is compiled for.

    Raises:
        InvalidValueError: a jitted function without its arguments.
        MissingPackageError, WorkloadError, UnsupportedError: see `lowering` and `compiling`.
    """
    from gpuscope.program.jax import lowering

    if isinstance(workload, tuple):
        function, arguments = workload
        lowered = lowering.lower(function, tuple(arguments), target.devices)
    elif is_jax_step(workload):
        name = getattr(workload, "__name__", "step")
        raise InvalidValueError(
            Text("{name} is a jitted function without its arguments.", name=name),
            Text("Their shapes say what it computes."),
            Text("Write: gs.predict(({name}, (argument, ...)), on=...)", name=name),
        )
    else:
        lowered = lowering.lower_build(workload, target.devices)
    return program_of(lowered, target, lowered.name)


def lowered_file(build: UserBuild, devices: int) -> Lowered:
    """In a process of its own: the user's file imported, its function lowered."""
    from gpuscope.program.jax.lowering import lower_build, on_host

    on_host()
    made: Callable[[], Any] = build.load()
    return lower_build(made, devices)


def program_of(lowered: Lowered, target: Target, name: str) -> Program | RankPrograms:
    """Have XLA compile what was lowered, and read it.

    Args:
        lowered: the module.
        target: what it is compiled for.
        name: what the user calls it.
    """
    from gpuscope.program.jax.compiling import compiled
    from gpuscope.program.jax.executable import as_program

    program = as_program(compiled(lowered, target), lowered, name)
    if lowered.devices == 1:
        return program
    program = replace(program, world_size=lowered.devices)
    return RankPrograms((program,), (tuple(range(lowered.devices)),))
