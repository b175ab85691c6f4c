"""What a block's passes keep of a micro-batch, read from its recording.

The arithmetic of `gpuscope.planning.score` splits everything over tensor parallel ranks; what they
gather before a product stays whole until its backward pass, and only a recording shows it.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuscope.program.types import Op, Program

__all__ = ["NOTHING", "Kept", "kept_of"]

_GRAIN = 512
"""The allocator gives out multiples of so many bytes (c10/cuda/CUDACachingAllocator.cpp)."""

_COPIES = ("aten::copy_", "aten::split_with_sizes_copy")
"""Make the parameters that a pass computes with; how long they stay is the plan's matter."""

_RESIDENT = ("parameter", "gradient", "optimizer_state", "buffer", "communication")


@dataclass(frozen=True, slots=True)
class Kept:
    """Bytes of a rank for one micro-batch.

    Attributes:
        block: results of a block that its backward pass needs.
        chosen: those of them that selective recomputation keeps.
        products: results of its products: where gradients of weights are computed apart, as much
            is kept of gradients from the inputs' pass to the weights'.
        around: the most that is there at a time of one block and both ends, without `block`.
    """

    block: float
    chosen: float
    products: float
    around: float


NOTHING = Kept(0.0, 0.0, 0.0, 0.0)
"""Of what was not recorded."""


def kept_of(program: Program, layer: str, kept: tuple[str, ...], products: tuple[str, ...]) -> Kept:
    """What the passes of a recorded step of one block keep.

    Args:
        program: of one micro-batch.
        layer: module path of the block.
        kept: operators whose results selective recomputation keeps.
        products: those of them that are products.
    """
    inside = layer + "."
    forward = {
        op.index: op
        for op in program.ops
        if op.phase == "forward" and (op.module == layer or op.module.startswith(inside))
    }
    end = max(op.index for op in program.ops if op.phase == "forward")
    made = {s.storage for op in program.ops if _copies(op) for s in op.outputs}

    def results(names: tuple[str, ...]) -> set[int]:
        return {s.storage for op in forward.values() if op.name in names for s in op.outputs}

    chosen, multiplied = results(kept), results(products)
    found = dict.fromkeys(("block", "chosen", "products"), 0)
    changes = [0] * (len(program.ops) + 2)
    for storage in program.storages:
        if storage.category in _RESIDENT or storage.id in made or storage.born < 0:
            continue
        nbytes = -(-storage.nbytes // _GRAIN) * _GRAIN
        died = len(program.ops) if storage.died is None else storage.died
        changes[storage.born] += nbytes
        changes[died] -= nbytes
        if storage.id in multiplied:
            found["products"] += nbytes
        if storage.born in forward and died > end:
            found["block"] += nbytes
            found["chosen"] += nbytes if storage.id in chosen else 0
    held = most = 0
    for change in changes:
        held += change
        most = max(most, held)
    around = max(0, most - found["block"])
    return Kept(found["block"], found["chosen"], found["products"], around)


def _copies(op: Op) -> bool:
    return op.stream != 0 or op.name in _COPIES
