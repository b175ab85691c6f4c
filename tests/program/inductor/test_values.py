"""The graph of values that a compiler would see."""

from __future__ import annotations

import torch

import gpuscope as gs


def test_a_reserve_of_nothing_is_no_value() -> None:
    """`_batch_norm_with_update`, as exported programs call it, returns one."""

    def build():
        x = torch.randn(4, 8, 5, device="cuda")
        weight, bias, mean, var = (torch.ones(8, device="cuda") for _ in range(4))
        norm = torch.ops.aten._batch_norm_with_update
        return lambda: norm(x, weight, bias, mean, var, 0.1, 1e-5)

    assert gs.predict(build, on="h200").step_time_s > 0
