"""What of the machine's rates attention's kernels reach, on the measured device and on others."""

from __future__ import annotations

from dataclasses import replace

import pytest
from attention_work import backward, flops, forward, main, qkv, seconds
from matmul_work import run

from gpuscope.cost.attention.rates import built_width
from gpuscope.cost.registry import Constants, Work, model_for
from gpuscope.hardware import device
from gpuscope.hardware.calibration import lent_to
from gpuscope.program.types import Op

H200 = device("h200")
PEAK = H200.peak_flops_per_s("bfloat16")


@pytest.mark.parametrize(
    ("head_dim", "backend", "built"),
    [(40, "flash", 64), (65, "efficient", 128), (160, "cudnn", 192), (160, "flash", 256),
     (257, "efficient", 384)],
)  # fmt: skip
def test_heads_are_computed_as_wide_as_a_kernel_is_built(
    head_dim: int, backend: str, built: int
) -> None:
    assert built_width(head_dim, backend) == built


def test_single_precision_is_not_rounded_to_tf32() -> None:
    """With tf32 allowed an H200 took as long: 800 us for 64 heads of 1,024 x 128."""
    shape = {"batch": 4, "heads": 16, "sq": 1024, "dim": 128, "dtype": "float32"}
    kernel = main(forward(**shape, backend="efficient", settings={"tf32_matmul": True}))
    assert kernel.dtype == "float32"
    assert kernel.limiter == "compute"
    assert kernel.duration_s == pytest.approx(800e-6, rel=0.1)


class TestImplementations:
    @pytest.mark.parametrize("dim", [64, 128, 256, 320, 512, 1024])
    @pytest.mark.parametrize("backend", ["flash", "efficient"])
    def test_no_width_of_head_beats_the_peak(self, dim: int, backend: str) -> None:
        for made in (forward, backward):
            kernels = made(heads=32, sq=4096, dim=dim, backend=backend)
            assert flops(kernels) / seconds(kernels) < PEAK

    def test_the_older_kernels_keep_their_order_on_hopper(self) -> None:
        q, k, v = qkv(heads=32, sq=8192, dim=128)
        taken = [
            seconds(run("gpuscope::attention", (q, k, v), (q,), causal=False, implementation=name))
            for name in ("cudnn", "flash", "efficient")
        ]
        assert taken == sorted(taken)


@pytest.mark.parametrize("backend", ["flash_only", "efficient_only"])
def test_kernels_of_older_devices_reach_the_same_share_of_every_hopper(backend: str) -> None:
    """One die: an H100 cannot run them quicker than the H200 that they were measured on."""
    shape = {"heads": 16, "sq": 16384, "dim": 128, "causal": True, "backend": backend}
    for call in (forward, backward):
        ratio = seconds(call(on="h100", **shape)) / seconds(call(on="h200", **shape))
        assert 0.9 < ratio < 1.15
    # Dao 2023, figure 7: 320 TFLOP/s forward and backward on an H100, at most.
    both = seconds(forward(on="h100", **shape)) + seconds(backward(on="h100", **shape))
    assert 7 * 16 * 16384**2 * 128 / both < 350e12


def test_a_head_fills_part_of_a_larger_systolic_array() -> None:
    """128 of 256 places of a v6e's array; a head of 256 fills it."""
    peak = device("tpu-v6e").peak_flops_per_s("bfloat16")

    def share(dim: int) -> float:
        shape = {"batch": 2, "heads": 16, "sq": 8192, "dim": dim, "causal": False}
        return 4 * 2 * 16 * 8192**2 * dim / seconds(forward(on="tpu-v6e", **shape)) / peak

    assert share(128) < 0.5
    assert share(256) > 1.2 * share(128)


def test_ampere_s_kernel_keeps_its_share_where_its_products_are_still_the_ones() -> None:
    """Capability 12 has the products of 8: what the kernel reaches on Hopper is not lent."""
    q, k, v = qkv(heads=16, sq=16384, dim=128)
    taken = {}
    for capability in ((8, 0), (9, 0), (10, 0), (12, 0)):
        on = replace(H200, compute_capability=capability)
        args = {"backend": "flash_only"}
        op = Op(0, "gpuscope::attention", inputs=(q, k, v), outputs=(q,), args=args)
        model = model_for(op.name)
        assert model is not None
        work = Work(op, on, Constants(lent_to("stranger")), (), (False,) * 3)
        taken[capability] = seconds(model(work))
    assert taken[8, 0] == taken[12, 0] < 0.75 * taken[9, 0]
    assert taken[9, 0] == taken[10, 0]
