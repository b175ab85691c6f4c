"""Random numbers and dropout.

Philox costs about a hundred instructions for four numbers, which is what limits dropout of 16-bit
data. Blocks are as many as fit at once; each walks its share (DistributionTemplates.h, Dropout.cu).
"""

from __future__ import annotations

from math import ceil

from gpuscope.cost.bandwidth import Launch, kernel, machine, reads, written
from gpuscope.cost.elementwise import elementwise
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.sort import key_sort
from gpuscope.cost.types import Kernel

_BLOCK = 256
_RESIDENT = 8
"""Blocks of 256 threads on a multiprocessor (2,048 threads)."""


def _philox(work: Work, name: str, key: str) -> tuple[Kernel, ...]:
    if not work.outputs or not work.outputs[0].numel:
        return ()
    out = work.outputs[0]
    get = work.constants.value
    read = reads(work) if "dropout" in name else None
    units = machine(work).units
    grid = max(1, min(ceil(out.numel / (_BLOCK * 4)), units * _RESIDENT))
    steps = ceil(out.numel / (grid * _BLOCK * 4))
    return (
        kernel(
            work,
            Launch(
                name,
                "random",
                read.cold if read else 0.0,
                read.hot if read else 0.0,
                written(work),
                items=out.numel,
                cycles=get(f"random.{key}.cycles"),
                grid=grid,
                block=_BLOCK,
                chain_s=get("random.base_s") + min(steps, 4) * get("random.step_s"),
                dtype=out.dtype,
                family="random",
            ),
        ),
    )


@kernel_model("aten::native_dropout", "aten::_fused_dropout")
def dropout(work: Work) -> tuple[Kernel, ...]:
    """Scale what is kept, zero the rest, and write the mask."""
    if not work.op.args.get("train", True) and work.outputs:
        return elementwise(work, name="copy", kind="copy")
    return _philox(work, "fused_dropout", "dropout")


@kernel_model(
    "aten::bernoulli",
    "aten::bernoulli_",
    "aten::uniform",
    "aten::uniform_",
    "aten::rand",
    "aten::rand_like",
    "aten::random_",
    "aten::random",
    "aten::randint",
    "aten::randint_like",
    "aten::exponential_",
    "aten::geometric_",
)
def uniform(work: Work) -> tuple[Kernel, ...]:
    """One uniform number an element."""
    return _philox(work, "random_uniform", "uniform")


@kernel_model(
    "aten::normal_",
    "aten::normal",
    "aten::randn",
    "aten::randn_like",
    "aten::normal_functional",
    "aten::cauchy_",
    "aten::log_normal_",
)
def normal(work: Work) -> tuple[Kernel, ...]:
    """One normal number an element (Box-Muller)."""
    return _philox(work, "random_normal", "normal")


@kernel_model("aten::randperm")
def permutation(work: Work) -> tuple[Kernel, ...]:
    """Random keys, then a sort by them."""
    drawn = uniform(work)
    return (*drawn, *key_sort(work, work.outputs[0].numel, 4, 8)) if drawn else ()
