"""Operators that are recorded as what C++ makes of them, by name.

Each has a function of the recorder and of its arguments; NotImplemented where this call of it is
recorded as it stands. What they need is imported with the first call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gpuscope.program.capture import composites
from gpuscope.program.capture.calls import Facts
from gpuscope.program.capture.fakes import on_device

__all__ = ["run"]


def run(recorder: Any, func: Any, facts: Facts, args: Any, kwargs: Any) -> Any:
    """The call taken apart, or NotImplemented where it is none of these."""
    way = _WAYS.get(facts.name)
    return NotImplemented if way is None else way(recorder, func, facts, args, kwargs)


def _equal(recorder: Any, func: Any, facts: Facts, args: Any, kwargs: Any) -> Any:
    from gpuscope.program.capture import comparisons

    return comparisons.equal(recorder, func, facts, args, kwargs)


def _distance(recorder: Any, func: Any, facts: Facts, args: Any, kwargs: Any) -> Any:
    from gpuscope.program.capture import comparisons

    with recorder:
        return comparisons.distance(*args)


def _trilinear(recorder: Any, func: Any, facts: Facts, args: Any, kwargs: Any) -> Any:
    if not on_device(args[0]):
        return NotImplemented
    from gpuscope.program.capture import trilinear

    with recorder, recorder.python.left_out():  # C++ does it
        return trilinear.trilinear(*args, **kwargs)


def _logsumexp(recorder: Any, func: Any, facts: Facts, args: Any, kwargs: Any) -> Any:
    if not on_device(args[0]):
        return NotImplemented
    with recorder:
        return composites.logsumexp(*args, **kwargs)


def _grouped(recorder: Any, func: Any, facts: Facts, args: Any, kwargs: Any) -> Any:
    if args[0].dtype == torch.bfloat16:
        return NotImplemented
    from gpuscope.program.capture import grouped_products

    with recorder:
        return grouped_products.run(args, kwargs)


def _packed(recorder: Any, func: Any, facts: Facts, args: Any, kwargs: Any) -> Any:
    from gpuscope.program.capture import packed

    with recorder:
        return packed.pack(*args)


def _sparse(recorder: Any, func: Any, facts: Facts, args: Any, kwargs: Any) -> Any:
    if not isinstance(args[1], torch.Tensor) or args[1].layout is torch.strided:
        return NotImplemented
    from gpuscope.program.capture import sparse

    with recorder:
        return sparse.taken_apart(facts.name, args, kwargs)


_WAYS: dict[str, Callable[..., Any]] = {
    "aten::equal": _equal,
    "aten::allclose": _equal,
    "aten::_euclidean_dist": _distance,
    "aten::_trilinear": _trilinear,
    "aten::logsumexp": _logsumexp,
    "aten::_grouped_mm": _grouped,
    "aten::_pack_padded_sequence": _packed,
    "aten::sparse_mask": _sparse,
    "aten::add_": _sparse,
}
