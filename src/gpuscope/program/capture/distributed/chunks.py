"""One rank's piece of a parameter, without making the pieces of all the others.

FSDP2 chunks every parameter over all data ranks to keep its own piece. A real tensor's views cost
next to nothing, but a thousand fakes cost a second a layer.
"""

from __future__ import annotations

import torch

__all__ = ["Pieces"]


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
