"""No waiting for the loss: what a step reads stays on the device, or is read one step late.

`loss.item()` stops the host until the device has caught up; the next step's launches begin only
then, so the device idles for as long as the host needs to get ahead again (PyTorch's performance
tuning guide, "Avoid unnecessary CPU-GPU synchronization").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.host_reads import HostRead, host_reads, read_edits
from gpuscope.advice.patching import user_sources
from gpuscope.advice.places import step_of
from gpuscope.advice.registry import register
from gpuscope.advice.rewriting import rewrite
from gpuscope.advice.types import Case, Edit, Fit, Numerics, Seen
from gpuscope.errors import UnsupportedError
from gpuscope.explain.types import Words
from gpuscope.run import Run

if TYPE_CHECKING:
    from gpuscope.advice.live import Live

__all__ = ["LazyItem"]

_WAITS = frozenset({"item", "synchronize"})


class LazyItem(Change):
    """Take per-step reads and synchronisations out of the step."""

    name = "lazy-item"
    title = Words("no waiting for the loss", "不再每步等待读取损失")
    group = "input"
    numerics: Numerics = "exact"
    rank = 15

    def fits(self, case: Case) -> Fit:
        """It needs reads in the step's own source that decide nothing."""
        if case.program is not None and not any(op.sync in _WAITS for op in case.program.ops):
            why = Words("The step reads nothing back.", "这一步没有读回任何数值。")
            return Fit(False, why, relevant=False)
        reads = _reads(case.seen)
        if reads is None:
            return Fit(
                False,
                Words(
                    "The step's source is not known; name it as file.py:build.",
                    "看不到这一步的源代码；请写成 file.py:build。",
                ),
            )
        able = [read for read in reads if read.removable]
        if not able:
            return _refusal(reads)
        lines = ", ".join(str(read.line) for read in able)
        return Fit(
            True,
            Words(
                f"The host waits for the device in every step to read a value (line {lines}).",
                f"主机每一步都停下来等设备，只为读一个数（第 {lines} 行）。",
            ),
        )

    def install(self, live: Live) -> None:
        """Run the step as its source would be without the waits."""
        from gpuscope.advice.late import forget

        def edit(step: Any) -> Any:
            if not rewrite(live, step, read_edits):
                raise UnsupportedError(
                    "No wait could be taken out of the step.",
                    "Its source is not known, or what it reads decides what runs next.",
                    "Return the loss as a tensor (loss.detach()) and read it where it is needed.",
                )
            return step

        forget()
        live.at_end(forget)
        live.on_step(edit)

    def risk(self, case: Case) -> Words | None:
        """Who gets the value gets a tensor, or the value of the step before."""
        return Words(
            "The step returns its loss as a tensor; what it prints is one step late.",
            "这一步返回的损失是张量；打印出来的数值晚一步。",
        )

    def unforeseen(self, case: Case) -> bool:
        """Without waits a host may be slow, now and then or always, and the device still has work;
        how slow the host will be is not known, and the change costs nothing."""
        return True

    def saving_s(self, run: Run, case: Case) -> tuple[float, float] | None:
        """At most the time that the device idles."""
        idle = sum(max(0.0, t.span_s - t.busy_s) for t in run.analysis.time.values())
        ranks = len(run.analysis.time)
        return (0.0, idle / ranks) if ranks else None

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """The same edits, in the step of `build`."""
        text = sources.get(seen.file)
        step = step_of(text, seen.function) if text and seen.function else None
        if text is None or step is None:
            return None
        return read_edits(seen.file, text, step) or None


def _reads(seen: Seen | None) -> tuple[HostRead, ...] | None:
    """The reads of the step; None where its source is not known."""
    if seen is None or not seen.function:
        return None
    text = user_sources(seen).get(seen.file)
    step = step_of(text, seen.function) if text else None
    return None if step is None else host_reads(step)


def _refusal(reads: tuple[HostRead, ...]) -> Fit:
    """Why no wait can go."""
    for read in reads:
        if read.use == "decides":
            return Fit(
                False,
                Words(
                    f"The value read in line {read.line} decides what runs next ({read.text}).",
                    f"第 {read.line} 行读取的数值决定接下来执行什么（{read.text}）。",
                ),
            )
        if read.use == "timed":
            return Fit(
                False,
                Words(
                    f"The synchronisation in line {read.line} is there for a clock.",
                    f"第 {read.line} 行的同步是为了计时。",
                ),
            )
    return Fit(
        False,
        Words(
            "Where the values that are read go cannot be followed.",
            "无法确定读回的数值用在哪里。",
        ),
    )


register(LazyItem())
