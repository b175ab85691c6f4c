"""Operators that the compiler writes loops for, as its lowerings and decompositions have them."""

from __future__ import annotations

import pytest
from fusion_programs import Steps

from gpuscope.program.fusion import FUSED, fuse

LOOPS = (
    "reflection_pad2d replication_pad2d pixel_shuffle pixel_unshuffle upsample_bicubic2d "
    "grid_sampler_2d _adaptive_avg_pool2d isneginf fmax bucketize _prelu_kernel lgamma"
).split()


@pytest.mark.parametrize("name", LOOPS)
def test_they_share_a_kernel_with_what_follows(name: str) -> None:
    s = Steps()
    x = s.tensor(8, 16, 64, 64)
    s.keep(s.call("mul", s.call(name, x), x))
    ops = fuse(s.program()).ops
    assert [op.name for op in ops] == [FUSED]
    assert name in ops[0].args["operators"]


@pytest.mark.parametrize("name", ["smooth_l1_loss", "huber_loss", "binary_cross_entropy"])
def test_losses_are_sums_over_everything_or_elements(name: str) -> None:
    s = Steps()
    x, y = s.tensor(64, 4096), s.tensor(64, 4096)
    s.keep(s.call(name, s.call("sigmoid", x), y, shape=()))
    (kernel,) = (op for op in fuse(s.program()).ops if op.name == FUSED)
    assert kernel.args["reduction"] == "inner"
    assert kernel.args["columns"] == 64 * 4096
    s = Steps()
    s.keep(s.call(name, s.tensor(64, 4096), s.tensor(64, 4096)))
    (kernel,) = fuse(s.program()).ops
    assert kernel.args["reduction"] == ""
