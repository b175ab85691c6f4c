"""cuDNN's direct kernels for results and data gradients."""

from __future__ import annotations

import pytest
from matmul_work import channels_last, dense, run

from gpuscope.cost.convolution.direct_results import ResultForm, direct_result_s
from gpuscope.cost.types import Kernel

FORM = ResultForm(1.6e-6, 10.0, 170.0, 5.0, 140.0)
CLOCK_S = 5e-10
FULL = 132 * 1024 * 64
"""Results of 64 blocks on each of 132 multiprocessors."""


def took(
    results: int = FULL, taps: float = 100.0, tap_cycles: float = 0.0, scattered: bool = False
) -> float:
    return direct_result_s(FORM, results, (taps, taps), tap_cycles, 132, CLOCK_S, scattered)


def test_a_warp_takes_its_steps_one_after_the_other() -> None:
    """64 blocks of 32 warps, 100 taps of 5 cycles and 10 at first."""
    assert took() == pytest.approx(64 * 32 * 510 * CLOCK_S, rel=0.2)
    assert took(taps=200) == pytest.approx(2 * took(), rel=0.05)


def test_banks_and_lines_replace_the_steps_that_they_outlast() -> None:
    assert took(tap_cycles=4.0) == took()
    assert took(tap_cycles=40.0) == pytest.approx(64 * 32 * 4010 * CLOCK_S, rel=0.01)


def test_few_blocks_wait_for_their_loads() -> None:
    assert took(1024) == pytest.approx(took(1024 * 132), rel=1e-9)
    assert took(1024) > 100 * 140 * CLOCK_S


def test_scattered_results_cost_as_much_a_warp_however_many_taps() -> None:
    few = took(taps=50, scattered=True) - took(taps=50)
    many = took(taps=400, scattered=True) - took(taps=400)
    assert few == pytest.approx(64 * 32 * 170 * CLOCK_S, rel=0.3)
    assert many == pytest.approx(few, rel=0.3)


def _forward(n: int, c: int, side: int, window: int, groups: int, last: bool) -> Kernel:
    make = channels_last if last else dense
    x, w = make(n, c, side, side, dtype="float32"), make(c, c // groups, window, window)
    found = run(
        "aten::convolution",
        (x, w),
        (make(n, c, side, side, dtype="float32"),),
        settings={"tf32_cudnn": False},
        stride=(1, 1),
        padding=(window // 2,) * 2,
        groups=groups,
    )
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("sizes", "recorded_us"), [((1, 28, 83, 3, 7, False), 6.6), ((1, 34, 11, 5, 17, False), 6.1)]
)
def test_narrow_groups_of_float32_take_it(
    sizes: tuple[int, int, int, int, int, bool], recorded_us: float
) -> None:
    found = _forward(*sizes)
    assert found.name == "conv_fprop_direct"
    assert found.duration_s * 1e6 == pytest.approx(recorded_us, rel=0.1)
