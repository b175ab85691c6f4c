from __future__ import annotations

import pytest
from memory_work import dense, run, seconds

from gpuscope.cost.types import Kernel
from gpuscope.program.types import TensorSpec

X = dense(35, 64, 512)


def layers(
    x: TensorSpec = X, mode: str = "lstm", name: str = "gpuscope::rnn",
    outputs: tuple[TensorSpec, ...] = (),
) -> tuple[Kernel, ...]:  # fmt: skip
    """Two layers of 512 units."""
    return run(name, (x,), outputs or (x,), mode=mode, hidden_size=512, num_layers=2,
               bidirectional=False)  # fmt: skip


def lstm(seq: int, batch: int = 64) -> float:
    return seconds(layers(dense(seq, batch, 512)))


def test_every_step_launches_a_product_and_a_cell() -> None:
    kernels = layers()
    assert len(kernels) == 2 * (1 + 2 * 35)
    assert sum(k.name == "rnn_cell" for k in kernels) == 70


def test_flops_are_those_of_the_gates() -> None:
    flops = sum(k.flops for k in layers())
    assert flops == pytest.approx(2 * 2 * 2 * 35 * 64 * 512 * 4 * 512)


def test_time_grows_with_the_sequence_not_with_a_small_batch() -> None:
    assert lstm(128) / lstm(64) == pytest.approx(2.0, rel=0.1)
    assert lstm(64, batch=8) > 0.6 * lstm(64, batch=64)


def test_backward_does_the_steps_again_and_the_weights() -> None:
    kernels = layers(name="gpuscope::rnn_backward", outputs=(X, dense(2048, 512)))
    assert sum(k.name == "rnn_step_backward" for k in kernels) == 70
    assert seconds(kernels) > lstm(35)


def test_a_gru_has_three_gates() -> None:
    lstm_flops = sum(k.flops for k in layers())
    assert sum(k.flops for k in layers(mode="gru")) == pytest.approx(0.75 * lstm_flops)
