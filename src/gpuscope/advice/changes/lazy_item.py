"""No waiting for the loss: what a step reads stays on the device, or is read one step late.

`loss.item()` stops the host until the device has caught up; the next step's launches begin only
then, so the device idles for as long as the host needs to get ahead again (PyTorch's performance
tuning guide, "Avoid unnecessary CPU-GPU synchronization").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.registry import register
from gpuscope.advice.source.host_reads import HostRead, host_reads, read_edits
from gpuscope.advice.source.patches import user_sources
from gpuscope.advice.source.places import step_of
from gpuscope.advice.source.rewriting import rewrite
from gpuscope.advice.types import ChangeCase, Edit, Fit, Numerics, Seen
from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError
from gpuscope.run import Run

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["LazyItem"]

_WAITS = frozenset({"item", "synchronize"})


class LazyItem(Change):
    """Take per-step reads and synchronisations out of the step."""

    name = "lazy-item"
    saves = "launches"
    title = Text("no waiting for the loss")
    group = "input"
    numerics: Numerics = "exact"
    rank = 15

    def fits(self, case: ChangeCase) -> Fit:
        """It needs reads in the step's own source that decide nothing."""
        if case.program is not None and not any(op.sync in _WAITS for op in case.program.ops):
            why = Text("The step reads nothing back.")
            return Fit(False, why, relevant=False)
        reads = _reads(case.seen)
        if reads is None:
            return Fit(False, Text("The step's source is not known; name it as file.py:build."))
        able = [read for read in reads if read.removable]
        if not able:
            return _refusal(reads)
        lines = ", ".join(str(read.line) for read in able)
        return Fit(
            True,
            Text(
                "The host waits for the device in every step to read a value (line {lines}).",
                lines=lines,
            ),
        )

    def install(self, live: Live) -> None:
        """Run the step as its source would be without the waits."""
        from gpuscope.runtime.late_values import forget

        def edit(step: Any) -> Any:
            if not rewrite(live, step, read_edits):
                raise UnsupportedError(
                    Text("No wait could be taken out of the step."),
                    Text("Its source is not known, or what it reads decides what runs next."),
                    Text(
                        "Return the loss as a tensor (loss.detach()) and read it where it is "
                        "needed."
                    ),
                )
            return step

        forget()
        live.at_end(forget)
        live.on_step(edit)

    def risk(self, case: ChangeCase) -> Text | None:
        """Who gets the value gets a tensor, or the value of the step before."""
        return Text("The step returns its loss as a tensor; what it prints is one step late.")

    def unforeseen(self, case: ChangeCase) -> bool:
        """Without waits a host may be slow, now and then or always, and the device still has work;
        how slow the host will be is not known, and the change costs nothing."""
        return True

    def saving_s(self, run: Run, case: ChangeCase) -> tuple[float, float] | None:
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
                Text(
                    "The value read in line {line} decides what runs next ({text}).",
                    line=read.line,
                    text=read.text,
                ),
            )
        if read.use == "timed":
            return Fit(
                False,
                Text("The synchronisation in line {line} is there for a clock.", line=read.line),
            )
    return Fit(False, Text("Where the values that are read go cannot be followed."))


register(LazyItem())
