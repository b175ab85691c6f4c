"""AdamW with 8-bit states, laid out as `bitsandbytes` keeps them.

One byte a moment and one float32 scale for each 256 of them; tensors of fewer than 4,096 elements
keep float32 states (Dettmers et al., "8-bit Optimizers via Block-wise Quantization", 2021,
arXiv:2110.02861; `bitsandbytes.optim.optimizer.Optimizer2State`). The paged form keeps states of
100,000 elements and more in memory that the driver moves: the allocator of the device never has it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

BLOCK = 256
LEAST_ELEMENTS = 4096
LEAST_PAGED = 100_000


@torch.library.custom_op(
    "gpuscope::adamw_8bit", mutates_args=("parameter", "first", "second", "scale1", "scale2")
)
def adamw_8bit(
    parameter: torch.Tensor,
    gradient: torch.Tensor,
    first: torch.Tensor,
    second: torch.Tensor,
    scale1: torch.Tensor,
    scale2: torch.Tensor,
) -> None:
    """One update of one tensor: all in one kernel."""
    raise NotImplementedError


@adamw_8bit.register_fake
def _(
    parameter: torch.Tensor,
    gradient: torch.Tensor,
    first: torch.Tensor,
    second: torch.Tensor,
    scale1: torch.Tensor,
    scale2: torch.Tensor,
) -> None:
    return None


class AdamW8bit(torch.optim.Optimizer):
    """The layout and the kernels of the 8-bit AdamW; for captures, it does not compute.

    Args:
        parameters: what is trained.
        paged: keep large states in paged memory.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], *, paged: bool) -> None:
        super().__init__(parameters, {"lr": 1e-4})
        self.paged = paged

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient, and wait for each.

        So does `bitsandbytes.optim.optimizer.Optimizer8bit.step` (`sync_gpu`, as of 0.50).
        """
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter)
                    torch.cuda.synchronize()

    def _update(self, parameter: torch.Tensor) -> None:
        own, grad = local_part(parameter), local_part(parameter.grad)
        state = self.state[parameter]
        if not state:
            self._make(state, own)
        adamw_8bit(own, grad, state["state1"], state["state2"], state["absmax1"], state["absmax2"])

    def _make(self, state: dict[str, torch.Tensor], own: torch.Tensor) -> None:
        small = own.numel() < LEAST_ELEMENTS
        paged = self.paged and own.numel() >= LEAST_PAGED
        blocks = 0 if small else -(-own.numel() // BLOCK)
        kind = torch.float32 if small else torch.uint8
        home = "cpu" if paged else own.device
        for moment in ("1", "2"):
            state[f"state{moment}"] = torch.zeros(own.shape, dtype=kind, device=home)
            state[f"absmax{moment}"] = torch.zeros(blocks, device=own.device)


def local_part(tensor: Any) -> torch.Tensor:
    """What a rank holds of a tensor."""
    part: torch.Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return part
