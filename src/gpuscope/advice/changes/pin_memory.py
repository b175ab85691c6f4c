"""Page-locked input: the device reads the host's memory by itself, at the link's full rate.

From pageable memory the driver first moves everything through a small locked buffer of its own, in
the calling thread (CUDA C++ Best Practices Guide, "Pinned Memory").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.changes.evidence.host_traffic import TINY_BYTES, host_traffic
from gpuscope.advice.registry import register
from gpuscope.advice.source.edits import call_keyword
from gpuscope.advice.types import ChangeCase, Edit, Fit, Seen
from gpuscope.document.quantities import Bytes
from gpuscope.document.text import Text
from gpuscope.run import Run

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["PinMemory"]


class PinMemory(Change):
    """Copy from page-locked host memory."""

    name = "pin-memory"
    saves = "copies"
    title = Text("page-locked input")
    group = "input"
    rank = 22

    def fits(self, case: ChangeCase) -> Fit:
        """It needs copies from pageable memory that are large enough to be felt."""
        moved = host_traffic(case)
        loaders = case.seen.loaders if case.seen is not None else ()
        unpinned = [each for each in loaders if not each.keywords.get("pin_memory")]
        if not moved.count:
            why = Text("The step copies nothing from the host.")
            return Fit(False, why, relevant=False)
        if not moved.pageable_bytes and not unpinned:
            return Fit(False, Text("The input is page-locked already."))
        if moved.pageable_bytes < TINY_BYTES:
            pageable = Bytes(moved.pageable_bytes)
            return Fit(
                False,
                Text(
                    "Only {pageable} a step come from pageable memory: locking it would gain "
                    "nothing and take memory from the host.",
                    pageable=pageable,
                ),
            )
        pageable = Bytes(moved.pageable_bytes)
        return Fit(
            True,
            Text(
                "{pageable} a step are copied from pageable memory, through the driver's buffer.",
                pageable=pageable,
            ),
        )

    def unforeseen(self, case: ChangeCase) -> bool:
        """A loader's own time is not known, and this lets it run beside the step."""
        return case.seen is not None and bool(case.seen.loaders)

    def install(self, live: Live) -> None:
        """Loaders lock their batches; other memory is locked when it is copied a second time."""
        from gpuscope.advice.changes.hooks.host_copies import around_host_copies
        from gpuscope.advice.changes.transforms.page_locking import Pinning

        def lock(keywords: dict[str, Any]) -> None:
            keywords["pin_memory"] = True

        live.on_loader(lock)
        pinning = Pinning(live.pretended)
        live.at_end(pinning.close)
        around_host_copies(live, pinning)

    def risk(self, case: ChangeCase) -> Text | None:
        """Locked memory is taken from the host."""
        return Text("Locked pages cannot be swapped out: the host needs the memory to spare.")

    def saving_s(self, run: Run, case: ChangeCase) -> tuple[float, float] | None:
        """What pageable copies take beyond page-locked ones: as these are modelled on this device
        (low), and at the link's full rate (high). They stay on the device's way: to hide them is
        for `prefetch-batches`."""
        low = high = 0.0
        for copy in run.analysis.copies:
            if copy.memory != "pageable" or copy.direction != "host to device":
                continue
            if not copy.total_bytes or not copy.link_bytes_per_s:
                high += copy.exposed_s
                continue
            exposed = copy.exposed_s / copy.time_s if copy.time_s else 0.0
            locked_s = copy.count * _locked_s(case, copy.total_bytes / copy.count)
            low += exposed * max(0.0, copy.time_s - locked_s)
            high += exposed * max(0.0, copy.time_s - copy.total_bytes / copy.link_bytes_per_s)
        return (low, high) if high else None

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """`pin_memory=True` in the loaders' calls, `.pin_memory()` where tensors are made."""
        from gpuscope.advice.source.device_copies import device_copies, pinned

        found = [
            call_keyword(sources, each.site, "DataLoader", "pin_memory", "True")
            for each in seen.loaders
            if not each.keywords.get("pin_memory")
        ]
        text = sources.get(seen.file, "")
        copies = device_copies(text, seen.function) if text and seen.function else None
        made = pinned(seen.file, text, seen.function, copies, bool(seen.loaders)) if copies else ()
        if not all(found) or made is None:
            return None
        return (*(e for e in found if e), *made) or None


def _locked_s(case: ChangeCase, size_bytes: float) -> float:
    """One copy of so many bytes from page-locked memory."""
    from gpuscope.cost.copy.transfer import link_copy
    from gpuscope.cost.registry import Constants, Work
    from gpuscope.hardware import calibration_for
    from gpuscope.program.types import Op

    work = Work(Op(0, "aten::copy_"), case.device, Constants(calibration_for(case.device)))
    return link_copy(work, size_bytes, "h2d", pinned=True).duration_s


register(PinMemory())
