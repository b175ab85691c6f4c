"""Segments that grow: what the allocator reserves comes nearer to what tensors need.

The caching allocator otherwise takes segments of fixed sizes from the driver; a gap between two
tensors serves only what fits into it. With `expandable_segments:True` (PyTorch, "CUDA semantics",
memory management) a segment is a range of addresses that pages are mapped into as it grows.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpuscope.advice.change import Change
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Fit
from gpuscope.document.quantities import Bytes, Percent
from gpuscope.document.text import Text
from gpuscope.program.types import Program

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["ExpandableSegments"]

VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
"""Names of the allocator's settings, the newer one first (PyTorch 2.9)."""

_SETTING = "expandable_segments:True"

LEAST_SHARE = 0.05
"""Less than this of what is reserved is hardly ever in the way."""


class ExpandableSegments(Change):
    """Let the allocator's segments grow."""

    name = "expandable-segments"
    title = Text("allocator segments that grow")
    group = "memory"
    rank = 5

    def fits(self, case: ChangeCase) -> Fit:
        """It needs memory that is reserved and not used at the peak."""
        peak, reserved = case.run.peak_memory_bytes, case.run.reserved_memory_bytes
        if case.device.vendor.lower() != "nvidia":
            why = Text("Only for CUDA devices.")
            return Fit(False, why, relevant=False)
        if any(_SETTING in os.environ.get(name, "") for name in VARIABLES):
            return Fit(False, Text("The segments grow already."))
        if not peak or not reserved:
            why = Text("The peak of memory is not known.")
            return Fit(False, why, relevant=False)
        gap = max(0, reserved - peak)
        share = Percent(gap / reserved)
        if gap < LEAST_SHARE * reserved:
            return Fit(
                False, Text("Only {share} of what is reserved lies idle at the peak.", share=share)
            )
        return Fit(
            True,
            Text(
                "{gap} ({share}) of what is reserved lies idle at the peak: at most that comes "
                "free. The forecast does not change, as the allocator of a capture has fixed "
                "segments.",
                gap=Bytes(gap),
                share=share,
            ),
        )

    def environment(self) -> Mapping[str, str]:
        """The allocator reads it when the device is first used."""
        known = {name: os.environ[name] for name in VARIABLES if os.environ.get(name)}
        name = next(iter(known), "PYTORCH_CUDA_ALLOC_CONF")
        before = [part for part in known.get(name, "").split(",") if part]
        kept = [part for part in before if not part.startswith("expandable_segments:")]
        return {name: ",".join([*kept, _SETTING])}

    def install(self, live: Live) -> None:
        """Set for this process, where the device has not been used yet or can still be told."""
        import torch

        if live.pretended or not torch.cuda.is_available():
            return
        tell = torch.cuda.memory._set_allocator_settings
        tell(_SETTING)
        live.at_end(lambda: tell("expandable_segments:False"))

    def transform(self, program: Program) -> Program:
        """The same: a capture's allocator has fixed segments."""
        return program

    def risk(self, case: ChangeCase) -> Text | None:
        """Memory shared between processes."""
        return Text("Tensors shared with other processes (CUDA IPC) may need fixed segments.")


register(ExpandableSegments())
