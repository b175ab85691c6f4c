"""Float8 layers for live code: under autocast, and for any number of rows."""

from __future__ import annotations

import torch
from torch.nn import functional as F  # noqa: N812

from gpuscope.program.models.building.float8 import Float8InferenceLinear, Float8TrainingLinear

__all__ = ["Float8Layer", "Float8StoredLayer"]

_MULTIPLE = 16


def _as_autocast(x: torch.Tensor) -> torch.Tensor:
    """What a linear layer would be given: autocast's dtype, where it is on."""
    if torch.is_autocast_enabled("cuda") and x.is_floating_point():
        return x.to(torch.get_autocast_dtype("cuda"))
    return x


class Float8Layer(Float8TrainingLinear):
    """A linear layer whose products are in float8 where the device can multiply their sizes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., K) -> (..., N)."""
        # The gradient of the weights sums over rows, in multiples of 16.
        if (x.numel() // x.shape[-1]) % _MULTIPLE:
            return F.linear(x, self.weight, self.bias)
        return super().forward(_as_autocast(x))


class Float8StoredLayer(Float8InferenceLinear):
    """A linear layer whose weight is stored in float8, for inference."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., K) -> (..., N)."""
        return super().forward(_as_autocast(x))
