"""What the host's own arithmetic takes: operators whose tensors all lie in the CPU's memory.

    flops / rate(dtype), or elements * (random | sort)   (what is done)
    + bytes / min(READ, NODE / ranks)                    (what is read and written)
    + bytes of a large result / FRESH                    (memory that the system first has to give)

Measured with 16 threads on the 16 cores of an H100's host (Intel Xeon, AVX-512 and AMX, torch 2.11;
`benchmarks/micro/host_arithmetic.py`, its points in `benchmarks/results/host_arithmetic.jsonl`).
Another host has 4 to 100 cores, and matrix units or none: see `SLOWER`.
"""

from __future__ import annotations

from math import log2

from gpuscope.cost.copy.transfer import FRESH_ABOVE_BYTES
from gpuscope.cost.host.model import host_class
from gpuscope.program.signatures.lists import FUSED
from gpuscope.program.types import Op

__all__ = ["FASTER", "SLOWER", "arithmetic_s"]

_FLOPS_PER_S = {"float64": 0.54e12, "bfloat16": 3.4e12, "float16": 3.4e12}
_FLOAT32_PER_S = 1.2e12
"""Products of 2048 and 4096 (1.01 TFLOP/s at 1024, 0.88 at 512, 0.31 at 128)."""

_CONVOLVED_PER_S = 0.75e12
"""Convolutions of 3 x 3: 0.92 and 0.60 TFLOP/s in float32."""

_RANDOM_S = 7.4e-9
"""An element of `rand` or `randn` (5.7 to 8.9 ns): one thread draws them."""

_PERMUTED_S = 20e-9
"""An element of `randperm` (9 to 30 ns)."""

_SORTED_S = 7.2e-9
"""n log2 n times this is a sort of n (7.2 ns from 16 thousand to 4 million)."""

_READ_BYTES_PER_S = 145e9
"""A sum over 256 MiB."""

_NODE_BYTES_PER_S = 490e9
"""What all ranks of a node share: two Intel Xeon Platinum 8480, each with 8 channels of DDR5-4800
(Intel's data sheet: 307 GB/s a socket), of which a stream reaches 80 % (a judgement)."""

_FRESH_BYTES_PER_S = 8e9
"""Results above `FRESH_ABOVE_BYTES` (7.4 GB/s for 256 MiB, 8.9 for 32 and for 512)."""

SLOWER, FASTER = 2.0, 0.67
"""How much longer or shorter it may be on another host, relatively (80 %): a third to three times
the arithmetic, a judgement."""


def arithmetic_s(op: Op, ranks: int = 1) -> float:
    """Seconds that an operator computes on the host; 0 for those of the device, and for views.

    Args:
        op: the operator.
        ranks: processes of the node, which do the same meanwhile and share the host's memory; each
            has 16 threads.
    """
    if op.view or op.sync:
        return 0.0
    if not op.outputs:
        return _update_s(op, ranks)
    if any(spec.device == "device" for spec in (*op.inputs, *op.outputs)):
        return 0.0
    if "empty" in op.name or op.name.startswith("gpuscope::"):
        return 0.0
    made = sum(spec.nbytes for spec in op.outputs)
    seconds = (made + sum(spec.touched_bytes for spec in op.inputs)) / _rate(ranks)
    before = {spec.storage for spec in op.inputs}
    seconds += sum(
        spec.nbytes / _FRESH_BYTES_PER_S
        for spec in op.outputs
        if spec.nbytes > FRESH_ABOVE_BYTES and spec.storage not in before
    )
    return seconds + _done_s(op)


def _rate(ranks: int) -> float:
    """Bytes a second that each of a node's ranks reads and writes."""
    return min(_READ_BYTES_PER_S, _NODE_BYTES_PER_S / ranks)


def _update_s(op: Op, ranks: int) -> float:
    """An optimizer's step on lists: it reads all of them, and writes all but the gradients.

    PyTorch's fused optimizers do it on the host in one pass, too, with all threads
    (aten/src/ATen/native/cpu/FusedAdamKernel.cpp).
    """
    lists = FUSED.get(op.name.rpartition("::")[2])
    tensors = [spec for spec in op.inputs if spec.numel > 1]
    if lists is None or any(spec.device == "device" for spec in tensors):
        return 0.0
    each = len(tensors) // lists
    moved = sum(spec.nbytes for spec in tensors)
    moved += sum(spec.nbytes for n, spec in enumerate(tensors) if n // max(1, each) != 1)
    return moved / _rate(ranks)


def _done_s(op: Op) -> float:
    name, first = op.name.rpartition("::")[2], op.outputs[0]
    kind = host_class(op.name)
    if kind == "matmul" and len(op.inputs) >= 2:
        depth = op.inputs[-2].shape[-1] if op.inputs[-2].shape else 1
        rate = _FLOPS_PER_S.get(first.dtype, _FLOAT32_PER_S)
        return 2.0 * first.numel * depth / rate
    if kind == "convolution":
        weight = next((s for s in op.inputs[1:] if len(s.shape) > 2), None)
        if weight is None:
            return 0.0
        back = "backward" in name
        rows = op.inputs[0] if back else first
        work = 2.0 * rows.numel * weight.numel / max(weight.shape[0], 1)
        return work * (2 if back else 1) / _CONVOLVED_PER_S
    if name.startswith("randperm"):
        return first.numel * _PERMUTED_S
    if name.startswith(("rand", "normal", "uniform", "bernoulli", "native_dropout", "exponential")):
        return first.numel * _RANDOM_S
    if name in ("sort", "argsort", "topk"):
        n = max((spec.numel for spec in op.inputs), default=0)
        return n * log2(n) * _SORTED_S if n > 1 else 0.0
    return 0.0
