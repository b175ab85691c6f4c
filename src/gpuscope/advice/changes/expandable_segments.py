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
from gpuscope.advice.types import Case, Fit
from gpuscope.analysis.wording import percent, size
from gpuscope.explain.types import Words

if TYPE_CHECKING:
    from gpuscope.advice.live import Live

__all__ = ["ExpandableSegments"]

VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
"""Names of the allocator's settings, the newer one first (PyTorch 2.9)."""

_SETTING = "expandable_segments:True"

LEAST_SHARE = 0.05
"""Less than this of what is reserved is hardly ever in the way."""


class ExpandableSegments(Change):
    """Let the allocator's segments grow."""

    name = "expandable-segments"
    title = Words("allocator segments that grow", "分配器使用可扩展段")
    group = "memory"
    rank = 5

    def fits(self, case: Case) -> Fit:
        """It needs memory that is reserved and not used at the peak."""
        peak, reserved = case.run.peak_memory_bytes, case.run.reserved_memory_bytes
        if case.device.vendor.lower() != "nvidia":
            why = Words("Only for CUDA devices.", "仅适用于 CUDA 设备。")
            return Fit(False, why, relevant=False)
        if any(_SETTING in os.environ.get(name, "") for name in VARIABLES):
            return Fit(False, Words("The segments grow already.", "已经使用可扩展段。"))
        if not peak or not reserved:
            why = Words("The peak of memory is not known.", "显存峰值未知。")
            return Fit(False, why, relevant=False)
        gap = max(0, reserved - peak)
        share = percent(gap / reserved)
        if gap < LEAST_SHARE * reserved:
            return Fit(
                False,
                Words(f"Only {share} of what is reserved lies idle at the peak.",
                      f"峰值时只有 {share} 的保留显存闲置。"),
            )  # fmt: skip
        return Fit(
            True,
            Words(
                f"{size(gap)} ({share}) of what is reserved lies idle at the peak: at most that"
                " comes free. The forecast does not change, as the allocator of a capture has"
                " fixed segments.",
                f"峰值时有 {size(gap)}（{share}）保留显存闲置：最多能省出这些。"
                "捕获使用的分配器是固定段，因此预测值不变。",
            ),
        )

    def environment(self) -> Mapping[str, str]:
        """The allocator reads it when the device is first used."""
        told = {name: os.environ[name] for name in VARIABLES if os.environ.get(name)}
        name = next(iter(told), "PYTORCH_CUDA_ALLOC_CONF")
        before = [part for part in told.get(name, "").split(",") if part]
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

    def risk(self, case: Case) -> Words | None:
        """Memory shared between processes."""
        return Words(
            "Tensors shared with other processes (CUDA IPC) may need fixed segments.",
            "与其他进程共享的张量（CUDA IPC）可能需要固定段。",
        )


register(ExpandableSegments())
