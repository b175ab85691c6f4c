"""The buckets of DDP's reducer: one flat tensor for many gradients, and views of its parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch._C import _distributed_c10d as c10d


class Bucket:
    """Gradients that are reduced together.

    Args:
        parameters: whose gradients, in the order of their places.
        indices: of the parameters, in the reducer's list.
        dtype: of the flat tensor; None: as the parameters.

    Attributes:
        flat: the memory that is reduced.
        views: of `flat`, one a parameter, strided as the parameter is where that is dense.
        pending: gradients that are not ready yet.
        future: what the reduction gives, once it is under way.
    """

    def __init__(
        self, parameters: Sequence[torch.Tensor], indices: Sequence[int], dtype: Any = None
    ) -> None:
        self.parameters = list(parameters)
        self.indices = list(indices)
        first = self.parameters[0]
        with torch.no_grad():
            size = sum(p.numel() for p in self.parameters)
            self.flat = torch.empty(size, dtype=dtype or first.dtype, device=first.device)
        self.views = self.views_of(self.flat)
        self.pending = len(self.indices)
        self.future: Any = None

    def views_of(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """Views of a tensor like `flat`, one a parameter."""
        views, at = [], 0
        with torch.no_grad():
            for parameter in self.parameters:
                shape, length = parameter.shape, parameter.numel()
                if _dense(parameter):
                    views.append(flat.as_strided(shape, parameter.stride(), at))
                else:
                    views.append(flat.narrow(0, at, length).view(shape))
                at += length
        return views


def _dense(tensor: torch.Tensor) -> bool:
    """Whether the elements fill their memory without gaps or overlap, in any order."""
    expected = 1
    sizes = ((st, n) for st, n in zip(tensor.stride(), tensor.shape, strict=True) if n != 1)
    for stride, size in sorted(sizes):
        if stride != expected:
            return False
        expected *= size
    return True


class GradBucket:
    """What a communication hook is given; as `torch.distributed.GradBucket`."""

    def __init__(self, bucket: Bucket, index: int, last: bool) -> None:
        self._bucket, self._index, self._last = bucket, index, last
        self._buffer = bucket.flat

    def index(self) -> int:
        """Number of the bucket; they become ready in this order."""
        return self._index

    def buffer(self) -> torch.Tensor:
        """All gradients, flat."""
        return self._buffer

    def gradients(self) -> list[torch.Tensor]:
        """The gradients, each in its parameter's shape."""
        return self._bucket.views_of(self._buffer)

    def parameters(self) -> list[torch.Tensor]:
        """Whose gradients they are."""
        return list(self._bucket.parameters)

    def is_last(self) -> bool:
        """Whether it is the last to be reduced in this pass."""
        return self._last

    def set_buffer(self, tensor: torch.Tensor) -> None:
        """Reduce this tensor instead."""
        self._buffer = tensor


def by_size(
    tensors: Sequence[torch.Tensor],
    limits: Sequence[int],
    sparse: Sequence[bool] = (),
    indices: Sequence[int] = (),
) -> list[list[int]]:
    """torch's own assignment of tensors to buckets.

    Args:
        tensors: in the order in which they are to be placed.
        limits: bytes after which a bucket is full: of the first, the second, ... and, with the
            last of them, of all others.
        sparse: which tensors will have sparse gradients, by index.
        indices: the tensors' indices; () counts them. With indices the buckets stay in the order
            in which they fill; without they are sorted by their smallest index.
    """
    found, _ = c10d._compute_bucket_assignment_by_size(
        list(tensors), list(limits), list(sparse), list(indices)
    )
    return [list(bucket) for bucket in found]


def builtin_hook(group: Any, half: bool, state: Any, bucket: GradBucket) -> Any:
    """default_comm_hooks.cpp: divided first, so that nothing overflows."""
    whole = bucket.buffer()
    with torch.no_grad():
        sent = whole.to(torch.float16) if half else whole
        sent.div_(group.size())
    future = group.allreduce([sent]).get_future()
    if not half:
        return future

    def decompress(done: Any) -> Any:
        with torch.no_grad():
            return whole.copy_(done.value()[0])

    return future.then(decompress)


def shares(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors lie in the same memory."""
    return bool(one.untyped_storage()._cdata == other.untyped_storage()._cdata)


def reached(outputs: Sequence[torch.Tensor]) -> Iterator[int]:
    """Identities of the parameters in the graph of the outputs."""
    stack = [t.grad_fn for t in outputs if t.grad_fn is not None]
    seen: set[Any] = set()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            yield id(node.variable)
        stack.extend(after for after, _ in node.next_functions if after is not None)
