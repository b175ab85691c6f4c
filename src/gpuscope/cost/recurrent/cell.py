"""One step of an LSTM or a GRU by itself: the fused kernel beside its two products.

A thread an element of the state, 512 a block (aten/src/ATen/native/cuda/RNN.cu): it reads the
gates' parts of both products and the state, and writes the new state and what the way back reads.
Read off an H200: 25 blocks for 32 rows of 400, forward and backward 2.0 us
(validation/recordings/h200/fresh/dreams.csv.gz).
"""

from __future__ import annotations

from math import ceil

from gpuscope.cost.bandwidth import Launch, kernel, reads, written
from gpuscope.cost.pointwise.elementwise import arithmetic_s
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel

_SPECIAL = {"lstm": 5, "gru": 3}
"""Sigmoids and hyperbolic tangents an element, forward; the way back is products and sums."""

_IN_A_ROW = 2
"""Of them that wait for each other: a GRU's candidate waits for a gate, an LSTM's output for its
cell state."""

_BLOCK = 512
"""AT_APPLY_THREADS_PER_BLOCK (cuda/CUDAApplyUtils.cuh)."""


@kernel_model(
    "gpuscope::lstm_cell",
    "gpuscope::lstm_cell_backward",
    "gpuscope::gru_cell",
    "gpuscope::gru_cell_backward",
    "aten::_thnn_fused_lstm_cell",
    "aten::_thnn_fused_lstm_cell_backward_impl",
    "aten::_thnn_fused_gru_cell",
    "aten::_thnn_fused_gru_cell_backward",
)
def cell(work: Work) -> tuple[Kernel, ...]:
    """All gates of a step, or their gradients."""
    backward = "backward" in work.op.name
    # The state forward; backward the gradient of the state, last of what is made in both.
    state = work.outputs[-1 if backward else 0] if work.outputs else None
    if state is None or not state.numel:
        return ()
    read, get = reads(work), work.constants.value
    mode = "lstm" if "lstm" in work.op.name else "gru"
    # An element a thread, its places found by a division, as in pointwise kernels of odd strides.
    accesses = sum(s.numel for s in (*work.inputs, *work.outputs)) / state.numel
    cycles = get("pointwise.strided.cycles") + get("pointwise.strided.cycles_per_thread")
    cycles += accesses * get("pointwise.strided.cycles_per_operand")
    if not backward:
        cycles += _SPECIAL[mode] * get("pointwise.arithmetic.transcendental") / 2
    wait_s = arithmetic_s(work, "cheap" if backward else "transcendental")
    launch = Launch(
        f"{mode}_cell_{'backward' if backward else 'forward'}",
        "pointwise",
        read.cold,
        read.hot,
        written(work),
        items=state.numel,
        cycles=cycles,
        grid=ceil(state.numel / _BLOCK),
        block=_BLOCK,
        chain_s=_IN_A_ROW * wait_s,
        dtype=state.dtype,
    )
    return (kernel(work, launch),)
