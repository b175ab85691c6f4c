"""The CTC loss: two kernels that go through time step by step, and one that gathers the gradient.

`ctc_loss_log_alpha_gpu_kernel` and its counterpart backwards hold a thread for each place of the
extended target and wait for each other at every step. The gradient is collected by a thread for
each step, which walks places and labels, where the problem is small, else by one for each place,
which walks the steps, between passes over all log-probabilities (aten/src/ATen/native/cuda/
LossCTC.cu). Seconds: ten recorded sizes of an H200 (validation/recordings/h200/functions.jsonl.gz).
"""

from __future__ import annotations

from math import ceil

from gpuscope.cost.bandwidth import Launch, kernel, machine, timed
from gpuscope.cost.copy.transfer import link_copy
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel
from gpuscope.program.types import TensorSpec

_LENGTHS = 24.0
"""Bytes a sequence of what is copied to the device: lengths of inputs and targets, and offsets."""

_PASSES, _SMALL = 4, 12
"""Of a large gradient: passes over all log-probabilities, and small kernels around them."""


def _copies(work: Work, batch: int) -> tuple[Kernel, ...]:
    return (link_copy(work, _LENGTHS / 3 * batch, "h2d", False),) * 3


def _walk(work: Work, name: str, batch: int, places: int, seconds: float) -> Kernel:
    """A kernel that takes so long whatever there is of the machine."""
    threads = min(1024, 1 << max(places - 1, 0).bit_length())
    rows = max(1, 1024 // threads)
    block = threads * min(rows, batch)
    return timed(work, name, "reduction", seconds, ceil(batch / rows), block, "ctc")


def _step_s(work: Work, probabilities: TensorSpec, name: str) -> float:
    """Of one step: its loads come from the L2 where the log-probabilities fit into it."""
    near = probabilities.nbytes <= machine(work).l2_bytes
    return work.constants.value(f"ctc.{name}_s" if near else "ctc.far_step_s")


@kernel_model("aten::_ctc_loss")
def ctc_loss(work: Work) -> tuple[Kernel, ...]:
    """Forward: one walk from the first step to the last."""
    if len(work.outputs) < 2 or not work.outputs[1].numel:
        return ()
    probabilities, alpha = work.op.inputs[0], work.outputs[1]
    steps, batch = probabilities.shape[:2]
    seconds = steps * _step_s(work, probabilities, "step")
    return (*_copies(work, batch), _walk(work, "ctc_log_alpha", batch, alpha.shape[-1], seconds))


@kernel_model("aten::_ctc_loss_backward")
def ctc_loss_backward(work: Work) -> tuple[Kernel, ...]:
    """Backward: one walk from the last step to the first, and the gradient of each label."""
    probabilities, alpha = work.op.inputs[1], work.op.inputs[-1]
    if len(probabilities.shape) < 3 or not probabilities.numel:
        return ()
    get = work.constants.value
    steps, batch, labels = probabilities.shape
    places = alpha.shape[-1]
    back = steps * _step_s(work, probabilities, "step")
    walked = _walk(work, "ctc_log_beta", batch, places, back)
    small = _walk(work, "elementwise_small", batch, 1, 0.0)
    if 2 * steps + 2.4 * batch + 0.2 * labels <= 450:  # `is_large`
        seconds = places * get("ctc.place_s") + labels * get("ctc.label_s")
        collected = _walk(work, "ctc_collect", steps * batch, 1, seconds)
        return (*_copies(work, batch), small, small, walked, collected, small)
    seconds = steps * _step_s(work, probabilities, "collected_step")
    collected = _walk(work, "ctc_collect_nonblank", batch, places // 2, seconds)
    size = float(probabilities.nbytes)
    through = kernel(
        work, Launch("elementwise_strided", "pointwise", size, written_bytes=size, dtype="float32")
    )
    around = (small,) * _SMALL
    return (*_copies(work, batch), walked, *around, *(through,) * _PASSES, collected)
