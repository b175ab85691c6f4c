"""One rank's piece of a parameter, without making the pieces of all the others.

FSDP2 chunks every parameter over all data ranks to keep its own piece. A real tensor's views cost
next to nothing, but a thousand fakes cost a second a layer.
"""

from __future__ import annotations

from typing import Any

import torch

from gpuscope.program.capture.patches import Patches

__all__ = ["Pieces", "install"]


class Pieces:
    """What FSDP2's `_chunk_with_empty` gives, each piece made when it is asked for.

    Args:
        tensor: what is chunked.
        count: pieces; the last ones are smaller or empty where they do not divide.
        dim: along which dimension.
    """

    def __init__(self, tensor: torch.Tensor, count: int, dim: int) -> None:
        self.tensor, self.count, self.dim = tensor, count, dim
        self._made: dict[int, torch.Tensor] = {}

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> torch.Tensor:
        if number not in self._made:
            self._made[number] = self._piece(number)
        return self._made[number]

    def _piece(self, number: int) -> torch.Tensor:
        length = self.tensor.shape[self.dim]
        each = -(-length // self.count)
        first = number * each
        if not 0 <= number < self.count:
            raise IndexError(number)
        if first >= length:
            return self.tensor.new_empty(0)
        return self.tensor.narrow(self.dim, first, min(each, length - first))


def install(patch: Patches) -> None:
    """Let FSDP2 make its own piece only."""
    try:
        from torch.distributed.fsdp._fully_shard import _fsdp_param
    except ImportError:  # torch without FSDP2, or with another layout of it
        return

    def chunk(tensor: torch.Tensor, num_chunks: int, dim: int) -> Any:
        return Pieces(tensor, num_chunks, dim)

    patch.set(_fsdp_param, "_chunk_with_empty", chunk, only_if_present=True)
