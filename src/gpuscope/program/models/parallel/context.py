"""Context parallelism: ranks that share every sequence, with PyTorch's ring attention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch.distributed.device_mesh import DeviceMesh


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
        rotation: "allgather" or "alltoall": how keys and values go round.
    """
    from torch.distributed.tensor.experimental import context_parallel
    from torch.distributed.tensor.experimental._attention import set_rotate_method

    set_rotate_method(rotation)
    buffers = [*data, *along]
    dims = [1] * len(data) + [0] * len(along)
    with context_parallel(mesh, buffers=buffers, buffer_seq_dims=dims):
        yield
