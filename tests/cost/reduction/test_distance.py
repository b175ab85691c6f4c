"""Distances of all pairs; microseconds are an H200's."""

from __future__ import annotations

import pytest
from memory_work import dense, run, seconds

from gpuscope.cost.workspace import transient_bytes
from gpuscope.hardware import device
from gpuscope.program.types import Op


@pytest.mark.parametrize(
    ("batch", "rows", "width", "forward_us", "backward_us"),
    [((), 1024, 64, 1407, 1077), ((4,), 512, 32, 1381, 760)],
)
def test_recorded_distances(
    batch: tuple[int, ...], rows: int, width: int, forward_us: float, backward_us: float
) -> None:
    x, out = dense(*batch, rows, width, at=0), dense(*batch, rows, rows, at=1)
    forward = run("_cdist_forward", (x, x), (out,), p=1.0)
    assert seconds(forward) == pytest.approx(forward_us * 1e-6, rel=0.1)
    backward = run("_cdist_backward", (out, x, x, out), (x,), p=1.0)
    # Of both sides, one call each.
    assert 2 * seconds(backward) == pytest.approx(backward_us * 1e-6, rel=0.35)


def test_the_gradient_of_each_pair_is_held() -> None:
    x, out = dense(1024, 64, at=0), dense(1024, 1024, at=1)
    op = Op(0, "aten::_cdist_backward", "default", (out, x, x, out), (x,), {})
    assert transient_bytes(op, device("h200")) == 1024 * 1024 * 64 * 4
