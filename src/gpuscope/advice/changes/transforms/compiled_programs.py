"""Programs of compiled steps, made of others that were captured: what is marked says it all."""

from __future__ import annotations

from dataclasses import replace

from gpuscope.program.types import OPTIMIZER_ISSUED, Op, Program

__all__ = ["in_mode", "with_compiled_optimizer"]

_GRAPHED = ("reduce-overhead", "max-autotune")
_MODES = ("", "default", "max-autotune-no-cudagraphs", *_GRAPHED)


def in_mode(program: Program, mode: str) -> Program:
    """A compiled program as another mode of `torch.compile` gives it.

    Args:
        program: in the default mode.
        mode: of `torch.compile`.
    """
    issued = mode in _GRAPHED and bool(_optimizer_regions(program))
    return _with_mode(program, mode, issued)


def with_compiled_optimizer(plain: Program, alone: Program, other: Program) -> Program | None:
    """A program whose optimizer is compiled, too; None where that is not certain.

    A capture marks the optimizer's operators and changes nothing else, so other changes do not
    matter as long as the optimizer runs the same operators.

    Args:
        plain, alone: without any change, and with the optimizer compiled.
        other: under other changes.
    """
    before, marked, now = (_of_optimizer(program) for program in (plain, alone, other))
    same = [op.name for op in before] == [op.name for op in marked] == [op.name for op in now]
    known = other.compiled in _MODES and alone.compiled == "default" and not plain.compiled
    breaks = alone.graph_breaks or any(op.region for op in now)
    if not same or not known or breaks or not all(op.region for op in marked):
        return None
    first = max((op.region for op in other.ops), default=0)
    if bool(other.compiled) != bool(first):
        return None
    of = {
        op.index: _marked(op, was, then, first)
        for op, was, then in zip(now, before, marked, strict=True)
    }
    made = replace(other, ops=tuple(of.get(op.index, op) for op in other.ops))
    return _with_mode(made, other.compiled or alone.compiled, other.compiled in _GRAPHED)


def _marked(op: Op, was: Op, then: Op, first: int) -> Op:
    """An optimizer's operator as the change left the plain one, in regions after the others."""
    return replace(
        op,
        region=first + then.region,
        python_calls=op.python_calls + then.python_calls - was.python_calls,
        python_instructions=op.python_instructions
        + then.python_instructions
        - was.python_instructions,
    )


def _with_mode(program: Program, mode: str, issued: bool) -> Program:
    settings = {**program.settings, OPTIMIZER_ISSUED: True} if issued else program.settings
    return replace(program, compiled=mode, settings=settings)


def _of_optimizer(program: Program) -> list[Op]:
    return [op for op in program.ops if op.phase == "optimizer"]


def _optimizer_regions(program: Program) -> set[int]:
    """Compiled calls in which nothing but an optimizer runs."""
    others = {op.region for op in program.ops if op.phase != "optimizer"}
    return {op.region for op in _of_optimizer(program) if op.region} - others
