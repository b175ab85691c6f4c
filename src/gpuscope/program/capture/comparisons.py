"""Comparisons that the host reads, and distances: what C++ composites do behind one operator."""

from __future__ import annotations

from typing import Any

import torch

from gpuscope.document.text import Text
from gpuscope.program.capture.calls import Facts
from gpuscope.program.capture.fakes import on_device
from gpuscope.program.capture.loops import keeps_going


def equal(recorder: Any, func: Any, facts: Facts, args: Any, kwargs: Any) -> bool:
    """`torch.equal` and `torch.allclose`: the host waits for one flag, unless shapes or identity
    decide."""
    first, second = recorder._as_fakes(args[:2])
    close = facts.name == "aten::allclose"
    if first.shape != second.shape and not close:
        return False
    found = recorder.host_values.compute(func, (first, second, *args[2:]), kwargs)
    if found is None:
        found = _assumed(recorder, first, second)
    if on_device(first) and (close or first is not second):
        # TensorCompare.cpp and cuda/Equal.cpp in aten/src/ATen/native: a flag an element, all, item
        with recorder:
            each = torch.isclose(first, second, *args[2:], **kwargs) if close else first == second
            flag = (recorder.spec(each.all()),)
        sync = "item" if close else "equal"
        recorder.append("aten::_local_scalar_dense", "default", flag, (), {}, sync=sync)
    elif first is not second:
        specs = (recorder.spec(first), recorder.spec(second))
        recorder.append(facts.name, facts.overload, specs, (), {})
    return found is not False


def _assumed(recorder: Any, first: torch.Tensor, second: torch.Tensor) -> bool:
    """What is taken for a comparison of data that nobody has."""
    if not first.dim() and first.dtype is second.dtype is torch.bool:
        # How C++ reads a flag of a tensor that is no ordinary one: it compares it with true.
        return bool(recorder.value_of(first) == recorder.value_of(second))
    wanted = keeps_going()
    if wanted is not None:
        return bool(recorder.flag_of_loop(wanted))
    recorder.values.assume(Text("Tensors compared by torch.equal are taken as equal."))
    return True


def distance(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """`aten::_euclidean_dist(x [..., N, D], y [..., M, D]) -> [..., N, M]`, by one product.

    As aten/src/ATen/native/Distance.cpp: |x|² + |y|² - 2 x y as the product of [-2x, |x|², 1] and
    [y, 1, |y|²].
    """
    x_norm, y_norm = x.pow(2).sum(-1, True), y.pow(2).sum(-1, True)
    left = torch.cat([x.mul(-2), x_norm, torch.ones_like(x_norm)], -1)
    right = torch.cat([y, torch.ones_like(y_norm), y_norm], -1)
    return left.matmul(right.mT).clamp_min_(0).sqrt_()
