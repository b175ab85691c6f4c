"""Checks of values that C++ makes inside of an operator: the host reads a flag, and waits for it.

They are seen neither by a dispatch mode nor by a fake, since they are made below both. Each reads
one number at a time, so the host waits as often. Written down as what they are: small reductions
and reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from gpuscope.program.capture.fakes import on_device

Check = Callable[[Any], Iterator[torch.Tensor]]


def _zero_points(args: Any) -> Iterator[torch.Tensor]:
    """The least and the greatest of whole zero points (FakeQuantPerChannelAffine.cpp)."""
    zero = args[2]
    if not zero.is_floating_point():
        yield zero.min()
        yield zero.max()


def _rounded_zero_points(args: Any) -> Iterator[torch.Tensor]:
    """Zero points that are learnt are rounded first (the same file)."""
    at = 3 if len(args) == 8 else 2
    whole = args[at].round().clamp_(-128, 127)
    if at == 2:
        whole = whole.to(torch.int32)
    yield whole.min()
    yield whole.max()


def _step_and_zero(args: Any) -> Iterator[torch.Tensor]:
    """The kernel takes both as numbers (FakeQuantPerTensorAffine.cpp, the learnable forms)."""
    at = len(args) - 5
    yield args[at][0]
    yield args[at + 1][0]


def _bounds(args: Any) -> Iterator[torch.Tensor]:
    """Where no range is given, from the least to the greatest
    (aten/src/ATen/native/cuda/SummaryOps.cu, `_histc_cuda_template`)."""
    low, high = (*args[2:4], 0, 0)[:2]
    if low == high and args[0].numel():
        yield args[0].min()
        yield args[0].max()


CHECKED: dict[str, Check] = {
    "aten::fake_quantize_per_channel_affine_cachemask": _zero_points,
    "aten::_fake_quantize_learnable_per_channel_affine": _rounded_zero_points,
    "aten::_fake_quantize_learnable_per_channel_affine_backward": _rounded_zero_points,
    "aten::_fake_quantize_learnable_per_tensor_affine": _step_and_zero,
    "aten::_fake_quantize_learnable_per_tensor_affine_backward": _step_and_zero,
    "aten::histc": _bounds,
}
"""Operator -> what of its arguments the host reads before it launches the operator's kernels."""


def read(recorder: Any, name: str, args: Any) -> None:
    """Write down what is computed for an operator's checks, and that the host waits for each."""
    if not on_device(args[0]):
        return
    flags = CHECKED[name](args)
    while True:
        with recorder:
            flag = next(flags, None)
        if flag is None:
            return
        given = (recorder.spec(flag),)
        recorder.append("aten::_local_scalar_dense", "default", given, (), {}, sync="item")
