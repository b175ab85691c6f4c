"""What a block costs on a device: its passes, those of the ends, and what is computed again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from gpuscope.cost.types import CostedOp, CostedProgram, Kind, Limiter
from gpuscope.planning.kept import NOTHING, Kept, kept_of
from gpuscope.program.types import Op, Program
from gpuscope.timeline.contention import Overlap
from gpuscope.timeline.device_time import device_time_s

__all__ = ["Block", "Passes", "block_of", "inside", "kept_in", "mean_of"]

_PRODUCTS = ("aten::mm", "aten::bmm", "aten::addmm", "aten::_grouped_mm")

_KEPT = (*_PRODUCTS, "gpuscope::attention")
"""Results that selective recomputation keeps (`gpuscope.program.models.parallel.recompute`)."""

_CHOSEN = 1460
"""Python instructions that selective recomputation adds to an operator, in the forward pass and
where it is computed again: both pass a dispatch mode in Python (counted in recordings, PyTorch
2.13)."""

_AGAIN = 14_000
"""Those of a block that is computed again, beside its operators: counted likewise."""

_NORMS = "norm_backward"
"""End of the names of what gives gradients of a norm's input and weight alike: it runs twice where
the two are computed apart."""


@dataclass(frozen=True, slots=True)
class Passes:
    """Seconds of a forward and of a backward pass.

    Attributes:
        forward_s, backward_s: of either.
        weights_s: of the backward pass, what gives gradients of weights alone.
    """

    forward_s: float
    backward_s: float
    weights_s: float = 0.0

    @property
    def both_s(self) -> float:
        """Of both passes."""
        return self.forward_s + self.backward_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A rank's work for one micro-batch; seconds of the device, own collectives included as far as
    its kernels do not cover them.

    Attributes:
        forward_s, backward_s: of a block.
        inputs_s, weights_s: of its backward pass where gradients of inputs and of weights are
            computed apart.
        again_s: of what a block computes again, by recomputation; its last product never is, since
            nothing of the backward pass needs the result.
        first, last: of the embedding, and of the output layer with the loss.
        host: host time of a block.
        again_host: what recomputation adds to that.
        inputs_host_s, weights_host_s: of its backward pass where the two are apart: the engine
            runs what leads to a product of weights again.
        ends_host_s: of everything before and after the blocks, both passes.
        sorts: time of a block's kernels by their kind and by what limits them.
        optimizer_s: for one parameter that a rank updates.
        kept: bytes that stay for its backward pass.
    """

    forward_s: float
    backward_s: float
    inputs_s: float
    weights_s: float
    again_s: Mapping[str, float]
    first: Passes
    last: Passes
    host: Passes
    again_host: Mapping[str, Passes]
    inputs_host_s: float
    weights_host_s: float
    ends_host_s: float
    sorts: Mapping[tuple[Kind, Limiter], float]
    optimizer_s: float
    kept: Kept = NOTHING


def block_of(
    costed: CostedProgram,
    layer: str,
    parameters: float,
    overlap: Overlap | None,
    instruction_s: float = 0.0,
) -> Block:
    """The block of a step, and what is around the blocks.

    Args:
        costed: a step of one micro-batch, without what a plan adds to it.
        layer: module path of a block.
        parameters: that a rank updates in it.
        overlap: how collectives and kernels slow each other.
        instruction_s: host time of an instruction in Python.
    """
    ops = [item.op for item in costed.ops]
    work = [n for n, op in enumerate(ops) if op.phase != "optimizer"]
    forward = [n for n in work if inside(ops[n], layer) and ops[n].phase == "forward"]
    backward = [n for n in work if inside(ops[n], layer) and ops[n].phase != "forward"]
    around = [n for n in work if not ops[n].module.startswith("layers.")]
    first = [n for n in around if ops[n].module.startswith("embedding")]
    last = [n for n in around if not ops[n].module.startswith("embedding")]

    def device_s(places: list[int]) -> float:
        return device_time_s(costed, places, overlap)

    def passes(places: list[int]) -> Passes:
        there = [n for n in places if ops[n].phase == "forward"]
        back = [n for n in places if ops[n].phase != "forward"]
        weights = _of_weights(ops, back)
        return Passes(device_s(there), device_s(back), device_s(sorted(weights)))

    def host_s(places: list[int]) -> float:
        return sum(_host_s(costed.ops[n]) for n in places)

    final = max(n for n in forward if ops[n].name in _KEPT)
    again = [n for n in forward if n < final]
    chosen = [n for n in again if ops[n].name not in _KEPT and ops[n].group < 0]
    mode_s, run_s = _CHOSEN * instruction_s, _AGAIN * instruction_s
    weights = _of_weights(ops, backward)
    apart = {*weights, *(n for n in backward if ops[n].name.endswith(_NORMS))}
    led = {ops[n].module for n in weights}
    issued = [n for n in backward if n in apart or (ops[n].module in led and _leads(ops[n]))]
    sorts: dict[tuple[Kind, Limiter], float] = {}
    for n in (*forward, *backward):
        for kernel in costed.ops[n].kernels:
            sort = kernel.kind, kernel.limiter
            sorts[sort] = sorts.get(sort, 0.0) + kernel.duration_s
    updates = sum(
        kernel.duration_s + costed.kernel_gap_s
        for item in costed.ops
        if item.op.phase == "optimizer"
        for kernel in item.kernels
    )
    return Block(
        forward_s=device_s(forward),
        backward_s=device_s(backward),
        inputs_s=device_s([n for n in backward if n not in weights]),
        weights_s=device_s([n for n in backward if n in apart]),
        again_s={"none": 0.0, "selective": device_s(chosen), "full": device_s(again)},
        first=passes(first),
        last=passes(last),
        host=Passes(host_s(forward), host_s(backward)),
        again_host={
            "none": Passes(0.0, 0.0),
            "selective": Passes(
                mode_s * len(forward), host_s(chosen) + mode_s * len(chosen) + run_s
            ),
            "full": Passes(0.0, host_s(again) + run_s),
        },
        inputs_host_s=host_s([n for n in backward if n not in weights]),
        weights_host_s=host_s(issued),
        ends_host_s=host_s(around),
        sorts=sorts,
        optimizer_s=updates / max(1.0, parameters),
    )


def mean_of(blocks: Iterable[tuple[int, Block]]) -> Block:
    """The block that stands for several kinds, of which a model has so many each."""
    counts, each = zip(*blocks, strict=True)
    if len(each) == 1:
        only: Block = each[0]
        return only
    made: Block = _mean(each, [count / sum(counts) for count in counts])
    return made


def _mean(values: Sequence[Any], shares: Sequence[float]) -> Any:
    """The weighted mean of numbers, of mappings to them, and of what is made of these."""
    first = values[0]
    if isinstance(first, Mapping):
        keys = {key for value in values for key in value}
        return {key: _mean([value.get(key, 0.0) for value in values], shares) for key in keys}
    if is_dataclass(first) and not isinstance(first, type):
        names = [field.name for field in fields(first)]
        return replace(first, **{n: _mean([getattr(v, n) for v in values], shares) for n in names})
    if isinstance(first, int | float):
        return sum(share * value for share, value in zip(shares, values, strict=True))
    raise TypeError(type(first))


def kept_in(program: Program, layer: str) -> Kept:
    """What a recorded block keeps for its backward pass (`gpuscope.planning.kept`)."""
    return kept_of(program, layer, _KEPT, _PRODUCTS)


def inside(op: Op, layer: str) -> bool:
    """Whether an operator is one of a block's."""
    return op.module == layer or op.module.startswith(layer + ".")


def _of_weights(ops: list[Op], backward: list[int]) -> set[int]:
    """Products of a backward pass that give gradients of weights: nothing there reads them."""
    products = [n for n in backward if ops[n].name in _PRODUCTS]
    read = {spec.storage for n in backward if not ops[n].view for spec in ops[n].inputs}
    return {n for n in products if all(spec.storage not in read for spec in ops[n].outputs)}


def _leads(op: Op) -> bool:
    """Whether it turns what a product of weights reads or gives, or waits for it."""
    return op.name in ("aten::t", "aten::transpose", "_c10d_functional::wait_tensor")


def _host_s(item: CostedOp) -> float:
    return item.host.before_s + item.host.per_launch_s * len(item.kernels) + item.host.after_s
