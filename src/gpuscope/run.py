"""`Run`: one type for a predicted and a measured run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from gpuscope.analysis.types import Analysis
from gpuscope.program.types import Program
from gpuscope.timeline.types import Timeline

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Run:
    """A workload on a device: how long a step takes, what it holds, what it costs, and why.

    Attributes:
        name: the workload.
        target: the device or cluster in words ("NVIDIA H200 SXM 141GB").
        device_id: catalogue id; "" for an unknown device of a trace.
        origin: "predicted" or "measured".
        step_time_s: time of one steady step.
        step_time_interval_s: (low, high) 80 % interval; equal ends mean it is exact.
        device_busy_s: union of device work in a step.
        host_busy_s: time the host works in a step; None if unknown.
        peak_memory_bytes: most bytes allocated by tensors; None if unknown.
        reserved_memory_bytes: most bytes held by the caching allocator; None if unknown.
        energy_j: energy of one step on one device; None if unknown.
        fits: whether the peak fits the device; None if unknown.
        timeline: the events of one steady step.
        analysis: what they mean.
        program: what was captured, for predicted runs.
        ranks: ranks present.
        assumptions: sentences for the user.
        origins: field name -> measured, calibrated, datasheet or estimated.
        samples, tokens: work of one step, where known.
    """

    name: str
    target: str
    device_id: str
    origin: Literal["predicted", "measured"]
    step_time_s: float
    step_time_interval_s: tuple[float, float]
    device_busy_s: float
    host_busy_s: float | None
    peak_memory_bytes: int | None
    reserved_memory_bytes: int | None
    energy_j: float | None
    fits: bool | None
    timeline: Timeline
    analysis: Analysis
    program: Program | None = None
    ranks: tuple[int, ...] = (0,)
    assumptions: tuple[str, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict)
    samples: int | None = None
    tokens: int | None = None

    def to_dict(self) -> dict[str, object]:
        """The run as plain data (the stable, versioned JSON document; see docs/json.md)."""
        from gpuscope.views.document import run_document

        return run_document(self)
