"""Copies that the host does not wait for: `non_blocking=True` from page-locked memory.

The host goes on to launch kernels while the batch is still on its way; the kernels' own stream
keeps them in order. From pageable memory it changes nothing: the driver stages such a copy in the
calling thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.host_traffic import TINY_BYTES, host_traffic
from gpuscope.advice.registry import register
from gpuscope.advice.types import Case, Edit, Fit, Seen
from gpuscope.analysis.wording import size
from gpuscope.explain.types import Words

if TYPE_CHECKING:
    from gpuscope.advice.host_tensors import HostCopy
    from gpuscope.advice.live import Live

__all__ = ["AsyncCopies"]


class AsyncCopies(Change):
    """Have the host go on while its data are copied."""

    name = "async-copies"
    title = Words("copies that the host does not wait for", "主机不等待的拷贝")
    group = "input"
    rank = 23

    def fits(self, case: Case) -> Fit:
        """It needs copies to the device that the host waits for."""
        moved = host_traffic(case)
        if not moved.count:
            why = Words("The step copies nothing from the host.", "每步没有从主机拷贝数据。")
            return Fit(False, why, relevant=False)
        if moved.waited_bytes is None:
            why = Words(
                "A recording does not say for which copies the host waits.",
                "记录中看不出主机在等待哪些拷贝。",
            )
            return Fit(False, why)
        if not moved.waited_bytes:
            why = Words("The host waits for no copy.", "主机没有在等待拷贝。")
            return Fit(False, why)
        told = size(moved.waited_bytes)
        if moved.pageable_bytes >= TINY_BYTES and not moved.pinned_bytes:
            return Fit(
                True,
                Words(
                    f"The host waits for {told} a step; it goes on only from page-locked memory"
                    " (with pin-memory).",
                    f"主机每步等待 {told} 的拷贝；只有使用锁页内存（配合 pin-memory）才不用等待。",
                ),
            )
        return Fit(
            True,
            Words(f"The host waits while {told} a step are copied.",
                  f"主机每步要等待 {told} 拷贝完成。"),
        )  # fmt: skip

    def install(self, live: Live) -> None:
        """Say `non_blocking=True` for every copy of data from host to device."""
        from gpuscope.advice.host_tensors import around_host_copies

        def start(copy: HostCopy) -> Any:
            return copy.run(non_blocking=True)

        around_host_copies(live, start)

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """`non_blocking=True` in the step's copies to the device."""
        from gpuscope.advice.copies_source import device_copies, non_blocking

        text = sources.get(seen.file, "")
        copies = device_copies(text, seen.function) if text and seen.function else None
        return non_blocking(seen.file, text, copies) or None if copies else None

    def risk(self, case: Case) -> Words | None:
        """The source may be overwritten while it is still being read."""
        return Words(
            "Code that writes into its page-locked tensor right after copying it would change what"
            " is still on its way.",
            "如果代码在拷贝之后立刻改写锁页张量，会改动仍在传输的数据。",
        )


register(AsyncCopies())
