"""AdamW whose moments are kept in bfloat16, the parameters staying in float32.

As Transformer Engine's `FusedAdam` with `exp_avg_dtype=torch.bfloat16` does, which Megatron-LM's
`--use-precision-aware-optimizer` starts and DeepSeek-V3 was trained with (arXiv:2412.19437, section
3.3.3): one kernel over lists of tensors, as PyTorch's fused AdamW, that rounds the moments as it
writes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from gpuscope.program.models.building.adamw_8bit import local_part


class AdamWBf16(torch.optim.Optimizer):
    """The states and the kernel of such an AdamW; for captures: PyTorch's kernel wants one dtype.

    Args:
        parameters: what is trained.
    """

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        super().__init__(parameters, {"lr": 1e-4})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        for group in self.param_groups:
            trained = [each for each in group["params"] if each.grad is not None]
            own = [local_part(each) for each in trained]
            if not own:
                continue
            states = [self._state(each, part) for each, part in zip(trained, own, strict=True)]
            torch._fused_adamw_(
                own,
                [local_part(each.grad) for each in trained],
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [],
                [state["step"] for state in states],
                lr=group["lr"],
                beta1=0.9,
                beta2=0.95,
                weight_decay=0.1,
                eps=1e-8,
                amsgrad=False,
                maximize=False,
            )

    def _state(self, parameter: torch.Tensor, own: torch.Tensor) -> dict[str, torch.Tensor]:
        state: dict[str, torch.Tensor] = self.state[parameter]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32, device=own.device)
            for name in ("exp_avg", "exp_avg_sq"):
                state[name] = torch.zeros_like(own, dtype=torch.bfloat16)
        return state
