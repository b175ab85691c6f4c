"""Which inputs of a program's operators are likely still in the L2, whoever made or read them."""

from __future__ import annotations

from functools import lru_cache
from math import inf

from gpuscope.cost.bandwidth import L2_SHARE, SECTOR_BYTES
from gpuscope.cost.identity import Same
from gpuscope.program.types import Op

_PICKED = frozenset({"aten::embedding", "aten::index_select", "aten::gather"})
_PICKED_LOSS = "aten::nll_loss_forward"
_ROWS_WRITTEN = frozenset({"aten::index_add_", "aten::index_copy_"})
_ELEMENTS_WRITTEN = frozenset({"aten::scatter_add_", "aten::scatter_"})


def _picked_bytes(op: Op) -> float:
    """Bytes that indices pick of an operator's first input; infinite where none do."""
    if op.name in _ROWS_WRITTEN:
        return float(op.inputs[-1].numel * op.inputs[0].itemsize)
    if op.name in _ELEMENTS_WRITTEN and len(op.inputs) > 1:
        index = op.inputs[1]
        rows = bool(index.stride) and index.stride[-1] == 0  # one index serves a row
        return index.numel * (op.inputs[0].itemsize if rows else float(SECTOR_BYTES))
    if op.name in _PICKED and op.outputs:
        single = op.name == "aten::gather"
        return op.outputs[0].numel * (SECTOR_BYTES if single else op.outputs[0].itemsize)
    if op.name == _PICKED_LOSS and len(op.inputs) > 1:
        return float(op.inputs[1].numel * SECTOR_BYTES)
    return inf


@lru_cache(maxsize=4)
def residency(ops: Same[tuple[Op, ...]], l2_bytes: float) -> tuple[tuple[bool, ...], ...]:
    """Per operator and input, whether the input is likely still in L2.

    Least-recently-used by bytes: an input is hot if all bytes touched since its last use,
    itself included, fit in the usable share of the cache.
    """
    usable = l2_bytes * L2_SHARE
    if not usable:
        return tuple((False,) * len(op.inputs) for op in ops.value)
    clock = 0.0
    last: dict[int | tuple[int, ...], float] = {}
    out = []
    for op in ops.value:
        if op.view:
            out.append((False,) * len(op.inputs))
            continue
        flags = []
        for spec in op.inputs:
            before = last.get(spec.storage)
            flags.append(before is not None and clock - before + spec.touched_bytes <= usable)
        touched: dict[int | tuple[int, ...], float]
        touched = {s.storage: s.touched_bytes for s in (*op.inputs, *op.outputs)}
        picked = _picked_bytes(op)
        if op.inputs and picked < op.inputs[0].touched_bytes:
            # The table itself is not in the cache, but what these indices pick of it is.
            del touched[op.inputs[0].storage]
            key = tuple(t.storage for t in op.inputs)
            before = last.get(key)
            flags[0] |= before is not None and clock - before + picked <= usable
            touched[key] = picked
        clock += sum(touched.values())
        for storage in touched:
            last[storage] = clock
        out.append(tuple(flags))
    return tuple(out)
