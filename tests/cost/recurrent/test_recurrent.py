from __future__ import annotations

import pytest
from memory_work import dense, run, seconds

from gpuscope.cost.registry import Constants, Work, model_for
from gpuscope.cost.types import Kernel
from gpuscope.hardware import calibration_for, device
from gpuscope.program.types import Op, TensorSpec

X = dense(35, 64, 512)


def layers(
    x: TensorSpec = X,
    mode: str = "lstm",
    name: str = "gpuscope::rnn",
    outputs: tuple[TensorSpec, ...] = (),
) -> tuple[Kernel, ...]:
    """Two layers of 512 units."""
    return run(
        name, (x,), outputs or (x,), mode=mode, hidden_size=512, num_layers=2, bidirectional=False
    )


def tf32(name: str, x: TensorSpec, hidden: int, count: int, on: bool = True) -> tuple[Kernel, ...]:
    """An LSTM with tensor cores, as PyTorch runs cuDNN by default, or without."""
    model = model_for(name)
    assert model is not None
    args = {"mode": "lstm", "hidden_size": hidden, "num_layers": count, "bidirectional": False}
    constants = Constants(calibration_for(device("h200")))
    op = Op(0, name, "default", (x,), (x,), args)
    return model(Work(op, device("h200"), constants, (("tf32_cudnn", on),)))


def lstm(seq: int, batch: int = 64) -> float:
    return seconds(layers(dense(seq, batch, 512)))


def test_every_step_launches_a_product_and_a_cell() -> None:
    kernels = layers()
    assert len(kernels) == 2 * (5 + 2 * 35)  # 35 steps of 64 rows: pieces of 8
    assert sum(k.name == "rnn_cell" for k in kernels) == 70


def test_deep_steps_in_tf32_wait_for_their_slices() -> None:
    """4,096 values in four slices, 32 at a time: 32 waits of 0.45 us. An H200 took 16.5 to 17.5 us
    a step for 16 rows of 1,024 units, and 1.5 us to clear what the slices are added to."""
    x = dense(32, 16, 1024)
    made = tf32("gpuscope::rnn_backward", x, 1024, 1)
    steps = [k for k in made if k.name == "rnn_step_backward"]
    assert steps[0].duration_s == pytest.approx(17e-6, rel=0.1)
    assert sum(k.kind == "memset" for k in made) == len(steps) == 32


def test_weights_that_outgrow_the_cache_come_from_memory_at_every_step() -> None:
    """Two layers of 2,000 units hold 128 MB of recurrent weights: at 4.4 TB/s 29 us for both."""
    x = dense(32, 32, 2000)
    made = tf32("gpuscope::rnn", x, 2000, 2)
    step = next(k for k in made if k.name == "rnn_step")
    assert step.limiter == "memory"
    assert step.duration_s == pytest.approx(25.7e-6, rel=0.1)


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


@pytest.mark.parametrize(
    ("batch", "hidden", "recorded_s"), [(6, 610, 14.6e-6), (20, 288, 8.5e-6), (46, 192, 8.4e-6)]
)
def test_steps_backward_in_float32_walk_slices(batch: int, hidden: int, recorded_s: float) -> None:
    """Tiles of 64 x 64 on the vector lanes, as recorded on an H200."""
    made = tf32("gpuscope::rnn_backward", dense(20, batch, 64), hidden, 1, on=False)
    step = next(k for k in made if k.name == "rnn_step_backward")
    assert step.duration_s == pytest.approx(recorded_s, rel=0.25)


def test_steps_by_a_large_float32_weight_walk_the_whole_depth() -> None:
    """34 rows, 896 hidden: 48 us a step backward on an H200."""
    made = tf32("gpuscope::rnn_backward", dense(26, 34, 80), 896, 1, on=False)
    step = next(k for k in made if k.name == "rnn_step_backward")
    assert step.duration_s == pytest.approx(48e-6, rel=0.35)
