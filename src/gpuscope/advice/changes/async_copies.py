"""Copies that the host does not wait for: `non_blocking=True` from page-locked memory.

The host goes on to launch kernels while the batch is still on its way; the kernels' own stream
keeps them in order. From pageable memory it changes nothing: the driver stages such a copy in the
calling thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.changes.evidence.host_traffic import TINY_BYTES, host_traffic
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Edit, Fit, Seen
from gpuscope.document.quantities import Bytes
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.host_copies import HostCopy
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["AsyncCopies"]


class AsyncCopies(Change):
    """Have the host go on while its data are copied."""

    name = "async-copies"
    title = Text("copies that the host does not wait for")
    group = "input"
    rank = 23

    def fits(self, case: ChangeCase) -> Fit:
        """It needs copies to the device that the host waits for."""
        moved = host_traffic(case)
        if not moved.count:
            why = Text("The step copies nothing from the host.")
            return Fit(False, why, relevant=False)
        if moved.waited_bytes is None:
            why = Text("A recording does not say for which copies the host waits.")
            return Fit(False, why)
        if not moved.waited_bytes:
            why = Text("The host waits for no copy.")
            return Fit(False, why)
        waited = Bytes(moved.waited_bytes)
        if moved.pageable_bytes >= TINY_BYTES and not moved.pinned_bytes:
            return Fit(
                True,
                Text(
                    "The host waits for {waited} a step; it goes on only from page-locked memory "
                    "(with pin-memory).",
                    waited=waited,
                ),
            )
        return Fit(True, Text("The host waits while {waited} a step are copied.", waited=waited))

    def install(self, live: Live) -> None:
        """Say `non_blocking=True` for every copy of data from host to device."""
        from gpuscope.advice.changes.hooks.host_copies import around_host_copies

        def start(copy: HostCopy) -> Any:
            return copy.run(non_blocking=True)

        around_host_copies(live, start)

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """`non_blocking=True` in the step's copies to the device."""
        from gpuscope.advice.source.device_copies import device_copies, non_blocking

        text = sources.get(seen.file, "")
        copies = device_copies(text, seen.function) if text and seen.function else None
        return non_blocking(seen.file, text, copies) or None if copies else None

    def risk(self, case: ChangeCase) -> Text | None:
        """The source may be overwritten while it is still being read."""
        return Text(
            "Code that writes into its page-locked tensor right after copying it would change what "
            "is still on its way."
        )


register(AsyncCopies())
