"""DDP's buckets: how many bytes of gradients are reduced together.

Larger buckets use the links better and launch fewer collectives; smaller ones begin earlier under
the backward pass, and the last, which nothing hides, is shorter (PyTorch documentation,
`DistributedDataParallel`, bucket_cap_mb, 25 MiB by default).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.changes.evidence.wrappers import keyword_edits, needs_ranks, wraps
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Edit, Fit, Seen
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["SIZES_MB", "DDPBucket"]

SIZES_MB = (10, 50, 100, 400)

_DEFAULT_MB = 25


class DDPBucket(Change):
    """Reduce gradients in buckets of another size.

    Args:
        size_mb: MiB of a bucket.
    """

    group = "distributed"
    numerics = "reordered"

    def __init__(self, size_mb: int) -> None:
        self.size_mb = size_mb
        self.name = f"ddp-bucket-{size_mb}"
        self.title = Text("DDP buckets of {size_mb} MiB", size_mb=size_mb)
        self.excludes = frozenset(f"ddp-bucket-{s}" for s in SIZES_MB if s != size_mb)

    def fits(self, case: ChangeCase) -> Fit:
        """It needs DDP with buckets of another size."""
        refused = needs_ranks(case, "ddp")
        if refused is not None:
            return refused
        known = [wrap.keywords.get("bucket_cap_mb") for wrap in wraps(case, "ddp")]
        sizes = [size or _DEFAULT_MB for size in known]
        if all(size == self.size_mb for size in sizes):
            return Fit(False, Text("They are {size_mb} MiB already.", size_mb=self.size_mb))
        listed = ", ".join(str(size) for size in sizes)
        return Fit(True, Text("Gradients go in buckets of {listed} MiB.", listed=listed))

    def install(self, live: Live) -> None:
        """Say the size where DDP is made."""

        def edit(kind: str, keywords: dict[str, Any]) -> None:
            if kind == "ddp":
                keywords["bucket_cap_mb"] = self.size_mb

        live.on_wrap(edit)

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """`bucket_cap_mb` in the call."""
        return keyword_edits(sources, seen, "ddp", "bucket_cap_mb", str(self.size_mb))


for _size in SIZES_MB:
    register(DDPBucket(_size))
