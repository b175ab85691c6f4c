"""What the launches of a recurrent layer cost the host: two lengths of one layer.

cuDNN issues two launches a time step (a product and a cell) from C++, without Python, dispatch or
memory in between. Two lengths of the same layer differ by these alone; float32 keeps the library
from kernels that walk all steps in one launch.
"""

from __future__ import annotations

from functools import partial

import torch

from gpuscope.measurement.bench.host_timing import HostTimer
from gpuscope.measurement.calibrate.host_constants import LENGTHS

_CALLS = 4
"""Calls a batch: 4 x 64 steps x 2 launches stay below the thousand that the queue holds."""

_WIDTH, _BATCH = 128, 16


def measure_recurrent(timer: HostTimer) -> None:
    """An LSTM's forward pass, recording autograd, at two lengths; nothing without a GPU."""
    if not timer.on_gpu:
        return
    layer = torch.nn.LSTM(_WIDTH, _WIDTH, device=timer.device)
    for length in LENGTHS:
        x = torch.randn(length, _BATCH, _WIDTH, device=timer.device)
        timer.calls("recurrent", "lstm", str(length), partial(layer, x), _CALLS)
