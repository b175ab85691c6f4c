"""Random numbers and dropout.

Philox costs about a hundred instructions for four numbers, which is what limits dropout of 16-bit
data. Blocks are as many as fit at once; each walks its share (DistributionTemplates.h, Dropout.cu).
"""

from __future__ import annotations

from math import ceil

from gpuscope.cost.bandwidth import Launch, kernel, machine, reads, written
from gpuscope.cost.indexing.sort import key_sort
from gpuscope.cost.pointwise.elementwise import elementwise
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel

_BLOCK = 256
_RESIDENT = 8
"""Blocks of 256 threads on a multiprocessor (2,048 threads)."""


def _philox(work: Work, name: str, key: str) -> tuple[Kernel, ...]:
    if not work.outputs or not work.outputs[0].numel:
        return ()
    out = work.outputs[0]
    get = work.constants.value
    units = machine(work).units
    grid = max(1, min(ceil(out.numel / (_BLOCK * 4)), units * _RESIDENT))
    steps = ceil(out.numel / (grid * _BLOCK * 4))
    return (
        kernel(
            work,
            Launch(
                name,
                "random",
                written_bytes=written(work),
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


_SEEDING_CYCLES = 0.87
"""Clocks of a multiprocessor that a thread takes to seed its generator (`curand_init`). Read off
recorded calls of 27,000 to 3 million elements: with a thread an element it is a large part."""


def _fused_dropout(work: Work) -> tuple[Kernel, ...]:
    """A thread an element is started, though each takes four (Dropout.cu): all seed a generator."""
    if not work.outputs or not work.outputs[0].numel:
        return ()
    out, read, get = work.outputs[0], reads(work), work.constants.value
    grid = max(1, min(ceil(out.numel / _BLOCK), machine(work).units * _RESIDENT))
    cycles = get("random.dropout.cycles")
    return (
        kernel(
            work,
            Launch(
                "fused_dropout",
                "random",
                read.cold,
                read.hot,
                written(work),
                items=out.numel,
                cycles=cycles + _SEEDING_CYCLES * grid * _BLOCK / out.numel,
                grid=grid,
                block=_BLOCK,
                streaming=True,
                chain_s=get("random.base_s"),
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
    return _fused_dropout(work)


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
