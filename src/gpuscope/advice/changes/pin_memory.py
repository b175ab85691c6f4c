"""Page-locked input: the device reads the host's memory by itself, at the link's full rate.

From pageable memory the driver first moves everything through a small locked buffer of its own, in
the calling thread (CUDA C++ Best Practices Guide, "Pinned Memory").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.host_traffic import TINY_BYTES, host_traffic
from gpuscope.advice.registry import register
from gpuscope.advice.source import call_keyword
from gpuscope.advice.types import Case, Edit, Fit, Seen
from gpuscope.analysis.wording import size
from gpuscope.explain.types import Words
from gpuscope.run import Run

if TYPE_CHECKING:
    from gpuscope.advice.live import Live

__all__ = ["PinMemory"]


class PinMemory(Change):
    """Copy from page-locked host memory."""

    name = "pin-memory"
    title = Words("page-locked input", "输入使用锁页内存")
    group = "input"
    rank = 22

    def fits(self, case: Case) -> Fit:
        """It needs copies from pageable memory that are large enough to be felt."""
        moved = host_traffic(case)
        loaders = case.seen.loaders if case.seen is not None else ()
        unpinned = [each for each in loaders if not each.keywords.get("pin_memory")]
        if not moved.count:
            why = Words("The step copies nothing from the host.", "每步没有从主机拷贝数据。")
            return Fit(False, why, relevant=False)
        if not moved.pageable_bytes and not unpinned:
            return Fit(False, Words("The input is page-locked already.", "输入已经在锁页内存中。"))
        if moved.pageable_bytes < TINY_BYTES:
            told = size(moved.pageable_bytes)
            return Fit(
                False,
                Words(
                    f"Only {told} a step come from pageable memory: locking it would gain nothing"
                    " and take memory from the host.",
                    f"每步只有 {told} 来自可分页内存：锁页没有收益，还会占用主机内存。",
                ),
            )
        told = size(moved.pageable_bytes)
        return Fit(
            True,
            Words(
                f"{told} a step are copied from pageable memory, through the driver's buffer.",
                f"每步有 {told} 从可分页内存拷贝，要经过驱动的中转缓冲区。",
            ),
        )

    def unforeseen(self, case: Case) -> bool:
        """A loader's own time is not known, and this lets it run beside the step."""
        return case.seen is not None and bool(case.seen.loaders)

    def install(self, live: Live) -> None:
        """Loaders lock their batches; other memory is locked when it is copied a second time."""
        from gpuscope.advice.host_tensors import around_host_copies
        from gpuscope.advice.pinning import Pinning

        def lock(keywords: dict[str, Any]) -> None:
            keywords["pin_memory"] = True

        live.on_loader(lock)
        pinning = Pinning(live.pretended)
        live.at_end(pinning.close)
        around_host_copies(live, pinning)

    def risk(self, case: Case) -> Words | None:
        """Locked memory is taken from the host."""
        return Words(
            "Locked pages cannot be swapped out: the host needs the memory to spare.",
            "锁定的内存页不能换出：主机要有足够的空闲内存。",
        )

    def saving_s(self, run: Run, case: Case) -> tuple[float, float] | None:
        """Pageable copies at the link's rate (low), or hidden altogether (high)."""
        low = high = 0.0
        for copy in run.analysis.copies:
            if copy.memory != "pageable" or copy.direction != "host to device":
                continue
            high += copy.exposed_s
            if copy.rate_bytes_per_s and copy.link_bytes_per_s:
                slower = 1 - min(1.0, copy.rate_bytes_per_s / copy.link_bytes_per_s)
                low += copy.exposed_s * slower
        return (low, high) if high else None

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """`pin_memory=True` in the loaders' calls, `.pin_memory()` where tensors are made."""
        from gpuscope.advice.copies_source import device_copies, pinned

        found = [
            call_keyword(sources, each.site, "DataLoader", "pin_memory", "True")
            for each in seen.loaders if not each.keywords.get("pin_memory")
        ]  # fmt: skip
        text = sources.get(seen.file, "")
        copies = device_copies(text, seen.function) if text and seen.function else None
        made = pinned(seen.file, text, seen.function, copies, bool(seen.loaders)) if copies else ()
        if not all(found) or made is None:
            return None
        return (*(e for e in found if e), *made) or None


register(PinMemory())
