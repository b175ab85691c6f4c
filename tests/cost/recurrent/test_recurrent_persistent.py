from __future__ import annotations

import pytest
from memory_work import dense, run, seconds


def layers(hidden: int, mode: str = "lstm", dtype: str = "float32", seq: int = 50) -> tuple:
    x = dense(seq, 8, 64, dtype=dtype, at=0)
    return run(
        "gpuscope::rnn",
        (x,),
        (dense(seq, 8, hidden, dtype=dtype, at=1),),
        mode=mode,
        hidden_size=hidden,
        num_layers=1,
    )


@pytest.mark.parametrize(("mode", "widest"), [("lstm", 128), ("gru", 192), ("rnn_tanh", 320)])
def test_small_layers_are_one_kernel_for_all_steps(mode: str, widest: int) -> None:
    small = [k.name for k in layers(widest, mode)]
    assert small.count("rnn_persistent") == 1
    assert "rnn_step" not in small
    assert "rnn_step" in [k.name for k in layers(widest + 8, mode)]


def test_bfloat16_steps_one_by_one() -> None:
    assert "rnn_step" in [k.name for k in layers(64, dtype="bfloat16")]


def test_longer_and_wider_takes_longer() -> None:
    assert seconds(layers(96, seq=100)) > 1.5 * seconds(layers(96, seq=50))
    assert seconds(layers(128)) > seconds(layers(64))


def test_within_a_third_of_a_recorded_call() -> None:
    # LSTM, float32, batch 8, 48 steps, hidden size 96: the walk alone took 49.3 us on an H200.
    walk = [k for k in layers(96, seq=48) if k.name == "rnn_persistent"]
    assert walk[0].duration_s == pytest.approx(49.3e-6, rel=0.33)


def test_packed_and_projected_sequences_are_walked_step_by_step() -> None:
    """480 launches of an H200 for a step of training with 32 time steps, 263 for packed ones."""
    x, state = dense(8, 32, 64, at=0), dense(2, 8, 16, at=1)
    args = {"mode": "lstm", "hidden_size": 48, "num_layers": 2, "batch_first": True}
    plain = run("gpuscope::rnn", (x, dense(2, 8, 48, at=1)), (x,), **args)
    projected = run("gpuscope::rnn", (x, state), (x,), **args)
    packed = run(
        "gpuscope::rnn", (dense(160, 64, at=0), dense(2, 8, 48, at=1)), (x,), steps=32, **args
    )
    assert sum("persistent" in k.name for k in plain) == 2
    assert not any("persistent" in k.name for k in (*projected, *packed))
    # A product for the gates, one for the projection and a cell: 32 steps of two layers.
    assert sum(k.name == "rnn_step" for k in projected) == 2 * 2 * 32
    assert sum(k.name == "rnn_step" for k in packed) == 2 * 32
