"""Selective checkpointing under a capture: policies hear the operators of a GPU."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch.utils.checkpoint import (  # noqa: E402
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from gpuscope.program.capture import capture  # noqa: E402
from gpuscope.program.capture.operators import define  # noqa: E402
from gpuscope.program.capture.selective import named_on_gpu  # noqa: E402

FLASH = torch.ops.aten._scaled_dot_product_flash_attention.default


class _Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(64, 192)

    def forward(self, x):
        q, k, v = self.layer(x).view(2, 16, 3, 4, 16).permute(2, 0, 3, 1, 4)
        return torch.nn.functional.scaled_dot_product_attention(q, k, v).sum()


def _captured(keep):
    """Operators that run again in the backward pass of one block with attention."""
    heard = []

    def policy(context, func, *args, **kwargs):
        heard.append(func)
        return CheckpointPolicy.MUST_SAVE if func in keep else CheckpointPolicy.PREFER_RECOMPUTE

    def build():
        block = _Block().cuda().bfloat16()
        x = torch.ones(2, 16, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)

        def context():
            return create_selective_checkpoint_contexts(policy)

        def step():
            checkpoint(block, x, use_reentrant=False, context_fn=context).backward()

        return step

    program = capture(build)
    return heard, [op.name for op in program.ops if op.recomputed and not op.view]


def test_attention_that_is_to_be_kept_is_not_run_again():
    heard, again = _captured({FLASH})
    assert FLASH in heard
    assert not any("gpuscope" in str(func) for func in heard)
    assert "gpuscope::attention" not in again
    assert "aten::addmm" in again


def test_what_is_not_kept_runs_again():
    _, again = _captured({torch.ops.aten.addmm.default})
    assert "gpuscope::attention" in again
    assert "aten::addmm" not in again


@pytest.mark.parametrize(
    ("backend", "name"),
    [
        ("flash", "_scaled_dot_product_flash_attention"),
        ("flash_only", "_scaled_dot_product_flash_attention"),
        ("efficient", "_scaled_dot_product_efficient_attention"),
        ("cudnn", "_scaled_dot_product_cudnn_attention"),
    ],
)
def test_each_attention_has_its_name(backend, name):
    define()
    args = (*[None] * 7, backend)
    heard = named_on_gpu(torch.ops.gpuscope.attention.default, args)
    assert heard is getattr(torch.ops.aten, name).default


def test_other_operators_are_themselves():
    define()
    assert named_on_gpu(torch.ops.aten.mm.default, ()) is torch.ops.aten.mm.default
    math = (*[None] * 7, "math")
    own = torch.ops.gpuscope.attention.default
    assert named_on_gpu(own, math) is own
