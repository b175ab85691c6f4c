"""Where a verdict draws its lines, each with its reason. Shares are 0..1."""

from __future__ import annotations

IDLE = 0.02
"""Below so much busy time nothing runs but a display or a monitor."""

STEADY = 0.85
"""From so much busy time on the device is never long without a kernel: what limits it is on it."""

BURSTS = 0.4
"""A mean distance of 40 % from the mean: work that is on half the time and off half has 1."""

HELD = 0.5
"""Held down in half the samples and more: the rule, no passing peak."""

HEAT = 0.1
"""Heat is told early: it grows, and no work should ever meet it."""

AT_POWER_LIMIT = 0.95
"""Power this near its limit is regulated by it (the driver holds the mean, not each moment)."""

POWER_LOW = 0.5
"""Full work of any kind draws more than half the limit (an H200 trains at 480-690 W of 700 W);
less says that the units wait, whatever the utilisation says."""

TENSOR_BUSY = 0.4
"""Large matrix products keep the tensor cores busy for 60-80 % of the time, and a step is not made
of products alone."""

DRAM_BUSY = 0.5
"""Streaming kernels reach 80-90 % of the memory's bandwidth; half, as a mean over a step,
means that most of the step is spent so."""

SM_FULL = 0.7
"""While a kernel runs most SMs have work: the kernels are large enough."""

SM_FEW = 0.35
"""While a kernel runs most SMs have none: kernels too small for the device."""

UNITS_QUIET = 0.15
"""Tensor cores and memory below this do next to nothing."""

SPINS = 0.05
"""Tensor cores and memory below this, with a kernel always there: it waits in a loop. Even a model
that decodes one token at a time reads its weights, and keeps the memory busier."""

PCIE_BUSY = 0.1
"""A tenth of the host link's rate: input that is copied, not only launches and results (which
take some MB/s)."""

PCIE_FILLED = 0.4
"""Copies reach 80-90 % of the host link's rate; two fifths as a mean is a link that carries input
about half of the time and more."""

LINKS_BUSY = 0.1
"""A tenth of what the links between devices carry: tensors, not signals."""

LINKS_BUSY_BYTES_PER_S = 30e9
"""The same where the links' rate is not known: a tenth of what the first server NVLink carried both
ways (300 GB/s, NVIDIA V100 datasheet)."""

LINKS_QUIET_BYTES_PER_S = 1e9
"""Below this links carry no tensors, only signals."""

HOST_BUSY = 0.7
"""So much of all processors' time leaves no room for workers that prepare input."""

FEW_SAMPLES = 3
"""Fewer samples than this cannot tell a habit from a moment."""
