"""What `analysis.use_over_time` returns: curves of the device's units over one step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class UseSeries:
    """One unit of the device over the step.

    Attributes:
        key: "tensor", "vector", "sm", "memory", "l2", "link", "h2d", "d2h", "power".
        unit: of `values`: "share", "bytes/s" or "W".
        values: mean of each bin.
        limit: what the unit can do, in the same unit; None if unknown.
        total: what the step holds in all: FLOPs, bytes, joules, seconds (of lanes issuing; of
            multiprocessors with a block, as if all were one).
        parts: the total in parts (read and written bytes), where there are any.
        known: share of the busy time (for links: of their own) whose work is known, 0..1.
        is_least: the values are a lower bound.
        origin: "computed" from the kernels' work, or "measured".
        limit_origin: where the limit comes from: "datasheet", "calibrated", ...
    """

    key: str
    unit: str
    values: tuple[float, ...]
    limit: float | None
    total: float
    parts: Mapping[str, float] = field(default_factory=dict)
    known: float = 1.0
    is_least: bool = False
    origin: str = "computed"
    limit_origin: str = ""


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of the step in which most device work is of one phase."""

    name: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class UseOverTime:
    """The units of one device over one step.

    Attributes:
        rank: whose device.
        start_ns, end_ns: the step, on the timeline's clock.
        bins: of equal length.
        series: what is known, in a fixed order.
        phases: forward, backward, ... in time order; () where no operator is known.
        l2_bytes: by kernel group (`analysis.grouping.group_key`) what one launch draws from L2,
            for groups whose tile tells it.
        matrix_flops: of the step's matrix families; None where not nearly all kernels are known.
    """

    rank: int
    start_ns: int
    end_ns: int
    bins: int
    series: tuple[UseSeries, ...]
    phases: tuple[Phase, ...]
    l2_bytes: Mapping[str, float] = field(default_factory=dict)
    matrix_flops: float | None = None


@dataclass(frozen=True, slots=True)
class KernelUse:
    """What one launch of a kernel asks of the units, whatever else runs.

    Over the time that it ran it is what a unit does at that instant; spread over the step it is the
    curves.

    Attributes:
        tensor_s: time that its FLOPs take at the matrix units' peak of its dtype.
        vector_s: time that it keeps the vector lanes issuing or multiplying.
        sm_share: share of multiprocessors that have a block, mean of its waves; None if unknown.
        memory_bytes: read and written, were nothing left in L2 from the kernel before.
        l2_bytes: between L2 and multiprocessors, at least; None where nothing is known.
    """

    tensor_s: float
    vector_s: float
    sm_share: float | None
    memory_bytes: float
    l2_bytes: float | None
