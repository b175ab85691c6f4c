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
