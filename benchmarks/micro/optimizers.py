"""Optimizer steps, gradient clipping and zeroing, by parameter count and number of tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from harness import Point

KINDS: dict[str, tuple[str, dict[str, object]]] = {
    "adamw_foreach": ("AdamW", {"foreach": True}),
    "adamw_fused": ("AdamW", {"fused": True}),
    "adamw_single": ("AdamW", {"foreach": False, "fused": False}),
    "adam_foreach": ("Adam", {"foreach": True}),
    "sgd_momentum_foreach": ("SGD", {"lr": 1e-3, "momentum": 0.9, "foreach": True}),
    "sgd_foreach": ("SGD", {"lr": 1e-3, "foreach": True}),
    "sgd_momentum_fused": ("SGD", {"lr": 1e-3, "momentum": 0.9, "fused": True}),
    "clip_grad_norm": ("", {}),
    "zero_grad": ("", {}),
}


def make_parameters(
    total: int, tensors: int, dtype: torch.dtype, device: str
) -> list[torch.Tensor]:
    """``tensors`` parameters with gradients, ``total`` elements in all."""
    made = []
    for _ in range(tensors):
        p = torch.nn.Parameter(torch.randn(total // tensors, dtype=dtype, device=device))
        p.grad = torch.randn_like(p)
        made.append(p)
    return made


def _make(kind: str, total: int, tensors: int, dtype: str) -> Callable[[str], Callable[[], object]]:
    def make(device: str) -> Callable[[], object]:
        real = torch.bfloat16 if dtype == "bf16" else torch.float32
        params = make_parameters(total, tensors, real, device)
        if kind == "clip_grad_norm":
            return lambda: torch.nn.utils.clip_grad_norm_(params, 1.0)
        if kind == "zero_grad":
            opt = torch.optim.SGD(params, lr=1e-3)
            return lambda: opt.zero_grad(set_to_none=False)
        name, options = KINDS[kind]
        step: Callable[[], object] = getattr(torch.optim, name)(params, **options).step
        return step

    return make


def points(quick: bool) -> Iterator[Point]:
    """All optimizer points; ``quick`` keeps ten million parameters in ten tensors."""
    for kind in KINDS:
        for tensors in (10,) if quick else (1, 10, 100, 300):
            for total in (10**7,) if quick else (10**5, 10**6, 10**7, 10**8, 10**9):
                single = kind == "adamw_single"
                if single and (
                    tensors > 100 or total > 10**8 or (tensors == 100 and total != 10**7)
                ):
                    continue
                dtypes = ("fp32", "bf16") if tensors == 100 and total >= 10**7 else ("fp32",)
                for dtype in dtypes:
                    params = {"op": kind, "dtype": dtype, "total": total, "tensors": tensors}
                    states = ("cold",) if total >= 10**8 else ("hot", "cold")
                    yield Point(
                        "optimizer", params, _make(kind, total, tensors, dtype), states, reps=4
                    )
