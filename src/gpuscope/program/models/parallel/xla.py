"""What XLA makes of a captured step on TPUs, as MaxText sets it.

Habits, each a choice that MaxText's configuration files print:

- Of a block that is computed again, some results are kept, on the chip or on the host
  (`remat_policy` with its tensors, src/maxtext/configs/base.yml). The host's copies take no time
  here: they run beside the computation.
- Gradients are summed over ranks when a block is done, and what comes next waits, unless flags move
  the sums beside it (docs/guides/optimization/benchmark_and_performance.md, "Communication
  overlaps").
- Attention's blocks have a size that the user gives (`sa_block_q` and its kin), and its kernel
  skips what a window hides (`LocalMask` of splash attention).

That elementwise steps are fused is `Software.compile`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuscope.program.models.parallel.options import Software
from gpuscope.program.types import Op

__all__ = ["ATTENTION", "CORE_ROWS", "as_compiled"]

CORE_ROWS = "core_rows"
"""Argument of attention: rows of a step on a device of few large cores."""

ATTENTION = frozenset({"gpuscope::attention", "gpuscope::attention_backward"})
_KEPT = frozenset({"aten::mm", "aten::addmm", "aten::linear", "gpuscope::attention"})
_SUMS = frozenset({"c10d::_reduce_scatter_base_", "c10d::allreduce_"})
"""As FSDP2 and DDP call them."""


def as_compiled(ops: list[Op], software: Software) -> None:
    """Change the operators of a rank's step in place; nothing where there is none of these habits.

    Args:
        ops: in program order.
        software: `kept`, `sums_beside` and `attention_rows` are read.
    """
    if software.kept:
        _keep(ops, software.kept)
    if not software.sums_beside:
        _sum_in_line(ops)
    if software.attention_rows:
        for index, op in enumerate(ops):
            if op.name in ATTENTION:  # one kernel, with windows too
                args = {**op.args, CORE_ROWS: software.attention_rows, "backend": "flash"}
                ops[index] = replace(op, args=args)


def _keep(ops: list[Op], names: Sequence[str]) -> None:
    """What is kept is not computed again."""
    for index, op in enumerate(ops):
        if op.recomputed and op.name in _KEPT and op.module.rpartition(".")[2] in names:
            ops[index] = replace(op, view=True)


def _sum_in_line(ops: list[Op]) -> None:
    """What the backward pass computes next waits for a sum of gradients over ranks."""
    waiting: list[int] = []
    for index, op in enumerate(ops):
        if op.name in _SUMS and op.phase == "backward":
            waiting.append(index)
        elif waiting and op.stream == 0 and _works(op):
            ops[index] = replace(op, waits=tuple(sorted({*op.waits, *waiting})))
            waiting.clear()


def _works(op: Op) -> bool:
    return not op.view and not op.name.endswith(("wait_tensor", "empty"))
