"""Convolutions in channels-last order: Inductor's layout optimization.

A graph with convolutions is changed to channels last as a whole, unless that is known to hurt
(`GraphLowering.decide_layout_opt`, torch/_inductor/graph.py). Activations then never change their
order; weights and the input, which come in the user's order, are copied once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import prod

from gpuscope.program.types import Op, Program, TensorSpec

_FEW = 300
"""Operators a convolution from which on a graph has too few convolutions to bother."""

_FORWARD = frozenset(["aten::convolution", "aten::cudnn_convolution", "aten::_convolution"])


def channels_last(program: Program, inside: frozenset[int]) -> Program:
    """The program with the activations of convolution graphs in channels-last order.

    Args:
        program: captured, in the user's order.
        inside: indices of the operators that the compiler sees.
    """
    regions: dict[int, list[Op]] = {}
    for op in program.ops:
        if op.index in inside:
            regions.setdefault(op.region, []).append(op)
    chosen = {region for region, ops in regions.items() if _pays(ops)}
    if not chosen:
        return program
    given = _from_outside(program, inside)
    ops = tuple(
        _changed(op, given) if op.index in inside and op.region in chosen else op
        for op in program.ops
    )
    return replace(program, ops=ops)


def _pays(ops: list[Op]) -> bool:
    """`decide_layout_opt`: the forward graph decides for both."""
    trains = any(op.phase == "backward" for op in ops)
    ops = [op for op in ops if op.phase == "forward" and not op.view]
    convolutions = [op for op in ops if op.name in _FORWARD and len(op.inputs[1].shape) == 4]
    if not convolutions or len(ops) >= _FEW * len(convolutions):
        return False
    if not trains:
        return _pays_in_inference(convolutions)
    if any(_grouped(op) or _narrows(op) for op in convolutions):
        return False
    return not all(_small(op) for op in convolutions)


_GAINS = (("grouped", 1.358), ("small", 0.783), ("in_out", 0.725))
_USUAL_GAIN = 0.823
"""Time of a convolution in channels last over that in channels first, as Inductor has it."""


def _pays_in_inference(convolutions: Iterable[Op]) -> bool:
    total = weighted = 0.0
    for op in convolutions:
        weight, out = op.inputs[1], op.outputs[0]
        flops = 2.0 * out.numel * prod(weight.shape[1:])
        kinds = {"grouped": _grouped(op), "small": _small(op), "in_out": _narrows(op)}
        gain = next((gain for kind, gain in _GAINS if kinds[kind]), _USUAL_GAIN)
        total += flops
        weighted += flops * gain
    return weighted <= total


def _grouped(op: Op) -> bool:
    groups = op.args.get("groups", 1)
    return isinstance(groups, int) and groups > 1 and op.inputs[1].shape[1] > 1


def _narrows(op: Op) -> bool:
    weight = op.inputs[1].shape
    return weight[0] * 2 <= weight[1] and weight[2] > 1


def _small(op: Op) -> bool:
    weight = op.inputs[1].shape
    return weight[0] <= 64 and weight[1] <= 64


def _from_outside(program: Program, inside: frozenset[int]) -> set[int]:
    """Storages that come in the user's order: what is there before, or made by eager code."""
    made = {
        t.storage for op in program.ops if op.index in inside and not op.view for t in op.outputs
    }
    used = {t.storage for op in program.ops for t in (*op.inputs, *op.outputs)}
    return used - made


_ROWS = frozenset(
    f"aten::{n}" for n in ("native_layer_norm", "native_layer_norm_backward", "_softmax")
)
"""Operators whose last dimension is that of their rows, so that it is no picture's width."""


def _changed(op: Op, given: set[int]) -> Op:
    last = _row_by_row if op.name in _ROWS else _last
    inputs = tuple(t if t.storage in given else last(t) for t in op.inputs)
    return replace(op, inputs=inputs, outputs=tuple(last(t) for t in op.outputs))


def _row_by_row(spec: TensorSpec) -> TensorSpec:
    """Channels taken for the last dimension: dense now, where they were apart."""
    if len(spec.shape) != 4:
        return spec
    _, h, w, c = spec.shape
    if spec.stride != (c * h * w, w, 1, h * w):
        return spec
    return replace(spec, stride=(c * h * w, w * c, c, 1))


def _last(spec: TensorSpec) -> TensorSpec:
    """A dense 4-D tensor with its channels innermost."""
    if len(spec.shape) != 4 or spec.device != "device" or not spec.is_contiguous:
        return spec
    _, c, h, w = spec.shape
    return replace(spec, stride=(c * h * w, 1, w * c, c))
