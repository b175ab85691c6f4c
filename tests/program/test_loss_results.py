"""What a loss holds until it is freed, against PyTorch's own tensors."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

import gpuscope as gs
from gpuscope.program.capture.loss_results import keep_unreduced

LOSSES = (
    functional.mse_loss,
    functional.smooth_l1_loss,
    functional.binary_cross_entropy,
    functional.soft_margin_loss,
    functional.huber_loss,
)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_storage_as_a_real_one(loss, reduction) -> None:
    def build():
        x = torch.rand(256, 512, device="cuda")
        y = torch.rand(256, 512, device="cuda")
        return lambda: loss(x, y, reduction=reduction).mul(2)

    x, y = torch.rand(2, 256, 512)
    real = loss(x, y, reduction=reduction).untyped_storage().nbytes()
    program = gs.capture(build)
    op = next(o for o in program.ops if o.name.endswith(loss.__name__))
    made = {s.id: s for s in program.storages}[op.outputs[0].storage]
    assert made.nbytes == real


def test_only_single_numbers_are_changed() -> None:
    out = torch.zeros(4)
    keep_unreduced("aten::mse_loss", (torch.zeros(4), torch.zeros(4)), out)
    assert out.untyped_storage().nbytes() == 16
