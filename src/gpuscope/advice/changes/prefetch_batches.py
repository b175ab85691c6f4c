"""The next batch is copied on a stream of its own while this step computes.

Copy engines work beside the multiprocessors (CUDA C++ Best Practices Guide, "Asynchronous and
Overlapping Transfers with Computation"), but only for copies from page-locked memory that are on
another stream than the kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.host_traffic import TINY_BYTES, host_traffic
from gpuscope.advice.registry import register
from gpuscope.advice.types import Case, Fit
from gpuscope.analysis.wording import size
from gpuscope.explain.types import Words
from gpuscope.run import Run

if TYPE_CHECKING:
    from gpuscope.advice.live import Live, Step

__all__ = ["PrefetchBatches"]


class PrefetchBatches(Change):
    """Copy the input of the next step while this one computes."""

    name = "prefetch-batches"
    title = Words("input copied one step ahead", "提前一步拷贝输入")
    group = "input"
    excludes = frozenset({"whole-step-graph"})
    rank = 24

    def fits(self, case: Case) -> Fit:
        """It needs input that is copied in the kernels' own stream, enough to be felt."""
        moved = host_traffic(case)
        if not moved.count:
            why = Words("The step copies nothing from the host.", "每步没有从主机拷贝数据。")
            return Fit(False, why, relevant=False)
        if case.program is not None and _all_beside(case):
            return Fit(
                False,
                Words("The copies are on a stream of their own already.", "拷贝已经在单独的流上。"),
            )
        if moved.total_bytes < TINY_BYTES:
            told = size(moved.total_bytes)
            return Fit(
                False,
                Words(f"Only {told} a step are copied: there is nothing to hide.",
                      f"每步只拷贝 {told}：没有可隐藏的时间。"),
            )  # fmt: skip
        told = size(moved.total_bytes)
        return Fit(
            True,
            Words(
                f"{told} a step are copied before the first kernel can begin.",
                f"每步要先拷贝 {told}，第一个内核才能开始。",
            ),
        )

    def unforeseen(self, case: Case) -> bool:
        """A loader's own time is not known, and this lets it run beside the step."""
        return case.seen is not None and bool(case.seen.loaders)

    def install(self, live: Live) -> None:
        """Loaders' batches and tensors copied every step are copied ahead, from locked memory."""
        import torch

        from gpuscope.advice.host_tensors import around_host_copies
        from gpuscope.advice.pinning import Pinning
        from gpuscope.advice.prefetching import Prefetching

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

    def price(self, case: Case) -> Words | None:
        """A second buffer for the input."""
        told = size(host_traffic(case).total_bytes)
        return Words(
            f"The device holds two batches ({told} more), the host locks the same.",
            f"设备上要放两批数据（多占 {told}），主机也要锁定同样多的内存。",
        )

    def risk(self, case: Case) -> Words | None:
        """The source may be overwritten while it is still being read."""
        return Words(
            "Code that writes into a tensor right after copying it must not rely on the copy being"
            " over.",
            "如果代码在拷贝之后立刻改写该张量，不能假定拷贝已经完成。",
        )

    def saving_s(self, run: Run, case: Case) -> tuple[float, float] | None:
        """At best all copies to the device that no kernel hides; at worst nothing."""
        exposed = sum(
            c.exposed_s for c in run.analysis.copies if c.direction == "host to device"
        )
        return (0.0, exposed) if exposed else None


def _all_beside(case: Case) -> bool:
    assert case.program is not None
    streams = [
        op.stream for op in case.program.ops
        if op.name == "aten::_to_copy" and op.inputs and op.outputs
        and op.inputs[-1].device == "host" and op.outputs[0].device == "device"
        and op.inputs[-1].nbytes > TINY_BYTES
    ]  # fmt: skip
    return bool(streams) and all(stream != 0 for stream in streams)


register(PrefetchBatches())
