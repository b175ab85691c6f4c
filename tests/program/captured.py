"""Short ways to look at a captured program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuscope.program.capture import capture
from gpuscope.program.types import Op, Program


def of(build: Callable[[], Any], **options: Any) -> Program:
    return capture(build, **options)


def work(program: Program, *phases: str) -> list[str]:
    """Names of the operators that do work, without their namespace."""
    return [base(op) for op in program.ops if not op.view and (not phases or op.phase in phases)]


def base(op: Op) -> str:
    return op.name.rpartition("::")[2]


def named(program: Program, name: str) -> list[Op]:
    return [op for op in program.ops if base(op) == name]


def one(program: Program, name: str) -> Op:
    (op,) = named(program, name)
    return op


def bytes_of(program: Program, category: str, resident: bool = True) -> int:
    return sum(
        s.nbytes for s in program.storages if s.category == category and (s.born < 0) == resident
    )
