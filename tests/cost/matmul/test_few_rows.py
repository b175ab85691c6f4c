"""Few rows by a kernel that walks K: its walk, its loads, and where the library takes it."""

from __future__ import annotations

import pytest
from matmul_work import dense, run, turned


def taken_s(m: int, n: int, k: int, layout: str = "NT", biased: bool = False) -> float:
    dtype = "float32"
    hot = n * k < 1.2e7
    b = turned(dense(n, k, dtype=dtype)) if layout == "NT" else dense(k, n, dtype=dtype)
    inputs = (dense(m, k, dtype=dtype), b)
    inputs = (dense(n, dtype=dtype), *inputs) if biased else inputs
    name = "aten::addmm" if biased else "aten::mm"
    kernels = run(name, inputs, (dense(m, n, dtype=dtype),), hot=hot)
    return sum(kernel.duration_s for kernel in kernels)


@pytest.mark.parametrize(
    ("m", "n", "k", "layout", "measured_s"),
    [
        (8, 1280, 1280, "NT", 8.64e-6),
        (8, 4096, 1024, "NT", 11.74e-6),
        (9, 16896, 5120, "NT", 241e-6),
        (9, 11072, 771, "NN", 16.5e-6),
        (16, 3456, 345, "NN", 6.3e-6),
    ],
)
def test_recorded_walks(m: int, n: int, k: int, layout: str, measured_s: float) -> None:
    """Kernels named gemmSN_TN and gemmSN_NN on an H200, with a bias or without."""
    assert taken_s(m, n, k, layout, layout == "NT") == pytest.approx(measured_s, rel=0.25)


def test_rounds_of_blocks_take_turns_at_the_loads_of_a_multiprocessor() -> None:
    """Each loads 64 columns of 400 floats, 45 bytes a nanosecond: 2.25 us."""
    two, three = (taken_s(4, blocks * 64, 400, "NN") for blocks in (264, 396))
    assert taken_s(4, 132 * 64, 400, "NN") < two
    assert three - two == pytest.approx(2.25e-6, rel=0.25)


def test_a_column_waits_for_its_depth_whatever_the_number_of_columns() -> None:
    assert taken_s(4, 8, 800) == pytest.approx(taken_s(4, 1056, 800), rel=0.05)
    assert taken_s(4, 8, 800) - taken_s(4, 8, 400) == pytest.approx(400 * 4.4e-9, rel=0.2)


def test_batches_and_gradients_of_weights_do_without() -> None:
    """3 x 8192 x 64 in a batch of 8 took 143 us, one block walking all of K."""
    a, b = dense(8, 3, 8192, dtype="float32"), dense(8, 8192, 64, dtype="float32")
    (made,) = run("aten::bmm", (a, b), (dense(8, 3, 64, dtype="float32"),), hot=True)
    assert made.tile[2] > 1
    a, b = turned(dense(512, 4, dtype="float32")), dense(512, 64, dtype="float32")
    made = run("aten::mm", (a, b), (dense(4, 64, dtype="float32"),), hot=True)[0]
    assert made.tile[2] > 1
