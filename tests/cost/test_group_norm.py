from __future__ import annotations

from memory_work import dense, run

from gpuscope.program.types import TensorSpec


def test_group_norm_makes_channels_last_input_contiguous_first() -> None:
    last = TensorSpec((4, 64, 32, 32), (65536, 1, 2048, 64), "float32")
    w, stat = dense(64), dense(4, 32)
    kernels = run("native_group_norm", (last, w, w), (dense(4, 64, 32, 32), stat, stat), group=32)
    assert kernels[0].kind == "copy"
    dense_in = dense(4, 64, 32, 32)
    assert len(run("native_group_norm", (dense_in, w, w), (dense_in, stat, stat), group=32)) == 3
