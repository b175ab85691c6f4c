"""Context parallelism: ranks share every sequence, by PyTorch's ring attention or over heads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch.distributed.device_mesh import DeviceMesh

from gpuscope.program.models.networks.head_exchange import heads_over


@contextmanager
def _parts(mesh: DeviceMesh, buffers: Sequence[tuple[torch.Tensor, int]]) -> Iterator[None]:
    """Each buffer is this rank's part of it along a dimension, in place."""
    whole = [buffer.clone() for buffer, _ in buffers]
    for buffer, dim in buffers:
        part = buffer.chunk(mesh.size(), dim)[mesh.get_local_rank()].clone()
        buffer.resize_(part.shape).copy_(part)
    try:
        yield
    finally:
        for (buffer, _), saved in zip(buffers, whole, strict=True):
            buffer.resize_(saved.shape).copy_(saved)


@contextmanager
def context_parallel_over(
    mesh: DeviceMesh, data: Sequence[torch.Tensor], along: Sequence[torch.Tensor], rotation: str
) -> Iterator[None]:
    """Inside, each rank has its part of the tokens, and attention reaches over all of them.

    Each rank gets one piece from the front and one from the back, so that all have as much of the
    causal triangle (Llama 3, arXiv:2407.21783, section 3.3.2).

    Args:
        mesh: the cp ranks, one dimension.
        data: tensors with tokens in dimension 1.
        along: tensors with tokens in dimension 0.
        rotation: "allgather" or "alltoall": how keys and values go round; "heads": they do not,
            each rank attends for its part of the heads, with a piece of the tokens in their order.
    """
    if rotation == "heads":
        cut = [(each, 1) for each in data] + [(each, 0) for each in along]
        with _parts(mesh, cut), heads_over(mesh.get_group()):
            yield
        return
    from torch.distributed.tensor.experimental import context_parallel
    from torch.distributed.tensor.experimental._attention import set_rotate_method

    set_rotate_method(rotation)
    buffers = [*data, *along]
    dims = [1] * len(data) + [0] * len(along)
    with context_parallel(mesh, buffers=buffers, buffer_seq_dims=dims):
        yield
