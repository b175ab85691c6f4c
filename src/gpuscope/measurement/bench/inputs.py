"""Random inputs of the benches. Power and clocks depend on the data's bits: never zeros."""

from __future__ import annotations

import torch

DTYPES = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp32": torch.float32,
    "tf32": torch.float32,
}
"""Short names in the `dtype` parameter of every bench; tf32 is fp32 data with TF32 allowed."""


def randn(*shape: int, dtype: torch.dtype = torch.float32, device: str = "cuda") -> torch.Tensor:
    """Return normally distributed data; whole numbers of -100 to 99 for integer dtypes."""
    if dtype.is_floating_point and dtype.itemsize >= 2:
        return torch.randn(shape, dtype=dtype, device=device)
    if dtype.is_floating_point:  # fp8 has no generator of its own
        return torch.randn(shape, dtype=torch.bfloat16, device=device).to(dtype)
    return torch.randint(-100, 100, shape, dtype=dtype, device=device)
