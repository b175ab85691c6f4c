"""The next batch is copied on a stream of its own while this step computes.

Copy engines work beside the multiprocessors (CUDA C++ Best Practices Guide, "Asynchronous and
Overlapping Transfers with Computation"), but only for copies from page-locked memory that are on
another stream than the kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.changes.evidence.host_traffic import TINY_BYTES, host_traffic
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Fit
from gpuscope.document.quantities import Bytes
from gpuscope.document.text import Text
from gpuscope.run import Run

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live, Step

__all__ = ["PrefetchBatches"]


class PrefetchBatches(Change):
    """Copy the input of the next step while this one computes."""

    name = "prefetch-batches"
    saves = "copies"
    title = Text("input copied one step ahead")
    group = "input"
    excludes = frozenset({"whole-step-graph"})
    rank = 24

    def fits(self, case: ChangeCase) -> Fit:
        """It needs input that is copied in the kernels' own stream, enough to be felt."""
        moved = host_traffic(case)
        if not moved.count:
            why = Text("The step copies nothing from the host.")
            return Fit(False, why, relevant=False)
        if case.program is not None and _all_beside(case):
            return Fit(False, Text("The copies are on a stream of their own already."))
        if moved.total_bytes < TINY_BYTES:
            copied = Bytes(moved.total_bytes)
            return Fit(
                False,
                Text("Only {copied} a step are copied: there is nothing to hide.", copied=copied),
            )
        copied = Bytes(moved.total_bytes)
        return Fit(
            True,
            Text("{copied} a step are copied before the first kernel can begin.", copied=copied),
        )

    def unforeseen(self, case: ChangeCase) -> bool:
        """A loader's own time is not known, and this lets it run beside the step."""
        return case.seen is not None and bool(case.seen.loaders)

    def install(self, live: Live) -> None:
        """Loaders' batches and tensors copied every step are copied ahead, from locked memory."""
        import torch

        from gpuscope.advice.changes.hooks.host_copies import around_host_copies
        from gpuscope.advice.changes.transforms.page_locking import Pinning
        from gpuscope.advice.changes.transforms.prefetching import Prefetching

        def lock(keywords: dict[str, Any]) -> None:
            keywords["pin_memory"] = True

        pinning = Pinning(live.pretended)
        live.at_end(pinning.close)
        ahead = Prefetching(live.pretended, torch.Tensor.to, pinning)

        def with_end(step: Step) -> Step:
            def stepped() -> object:
                out = step()
                ahead.step_ended()
                return out

            return stepped

        live.on_loader(lock)
        live.on_batches(ahead.batches)
        around_host_copies(live, ahead)
        live.on_step(with_end)

    def price(self, case: ChangeCase) -> Text | None:
        """A second buffer for the input."""
        copied = Bytes(host_traffic(case).total_bytes)
        return Text(
            "The device holds two batches ({copied} more), the host locks the same.", copied=copied
        )

    def risk(self, case: ChangeCase) -> Text | None:
        """The source may be overwritten while it is still being read."""
        return Text(
            "Code that writes into a tensor right after copying it must not rely on the copy being "
            "over."
        )

    def saving_s(self, run: Run, case: ChangeCase) -> tuple[float, float] | None:
        """At best all copies to the device that no kernel hides; at worst nothing."""
        exposed = sum(c.exposed_s for c in run.analysis.copies if c.direction == "host to device")
        return (0.0, exposed) if exposed else None


def _all_beside(case: ChangeCase) -> bool:
    assert case.program is not None
    streams = [
        op.stream
        for op in case.program.ops
        if op.name == "aten::_to_copy"
        and op.inputs
        and op.outputs
        and op.inputs[-1].device == "host"
        and op.outputs[0].device == "device"
        and op.inputs[-1].nbytes > TINY_BYTES
    ]
    return bool(streams) and all(stream != 0 for stream in streams)


register(PrefetchBatches())
