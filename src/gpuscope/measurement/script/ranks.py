"""Several processes of one run: who this one is, and rank 0 putting the traces together."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuscope.timeline.types import Timeline

WAIT_S = 60.0
"""Longest that rank 0 waits for the others' traces after its own is written."""

LET_GO_S = 0.2
"""How long a rank stays after its work. A thread of gloo's lets go of its last work's tensors a
moment after the script has them, and needs Python for it: where Python is ending by then, the
process is aborted ("terminate called without an active exception"; PyTorch 2.13, seen in a fifth of
the plain runs of two ranks on a busy machine)."""


@dataclass(frozen=True, slots=True)
class Place:
    """This process among the others; a single one is rank 0 of 1."""

    rank: int = 0
    world_size: int = 1

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> Place:
        """Read what torchrun sets (RANK, WORLD_SIZE)."""
        try:
            rank, size = int(environment["RANK"]), int(environment["WORLD_SIZE"])
        except (KeyError, ValueError):
            return cls()
        return cls(rank, size) if 0 <= rank < size else cls()

    def trace_name(self) -> str:
        """File of this rank's trace."""
        return "trace.json.gz" if self.world_size == 1 else f"trace-rank-{self.rank}.json.gz"

    def done_name(self) -> str:
        """File that says this rank is done, with or without a trace."""
        return f".rank-{self.rank}.done"


def clear(folder: Path, place: Place) -> None:
    """Remove what an earlier run left of this rank."""
    for name in (place.trace_name(), place.done_name()):
        (folder / name).unlink(missing_ok=True)


def say_done(folder: Path, place: Place, first_step: int | None = None) -> None:
    """Let rank 0 know that this rank's trace is written, or will not be; stay for `LET_GO_S`.

    Args:
        folder: where the traces go.
        place: this process.
        first_step: boundaries that it had met when its recording began; None if it has none.
    """
    if place.rank > 0:
        text = "" if first_step is None else str(first_step)
        part = folder / f"{place.done_name()}.part"
        part.write_text(text, encoding="utf-8")
        part.replace(folder / place.done_name())
        time.sleep(LET_GO_S)


@dataclass(frozen=True, slots=True)
class Arrived:
    """The ranks that have written a trace, and the first recorded step of those that told it."""

    ranks: tuple[int, ...]
    first_step: Mapping[int, int]

    def apart(self, first_step: int | None) -> list[int]:
        """Return the ranks whose recording began at another step than `first_step`."""
        return [rank for rank, step in sorted(self.first_step.items()) if step != first_step]


def wait_for_others(folder: Path, place: Place, wait_s: float = WAIT_S) -> Arrived:
    """Wait until every other rank is done, or `wait_s` are over."""
    ranks = [Place(rank, place.world_size) for rank in range(place.world_size)]
    others = [each for each in ranks if each.rank != place.rank]
    end = time.monotonic() + wait_s
    while time.monotonic() < end:
        if all((folder / each.done_name()).exists() for each in others):
            break
        time.sleep(0.1)
    known: dict[int, int] = {}
    for each in others:
        done = folder / each.done_name()
        text = done.read_text(encoding="utf-8") if done.exists() else ""
        if text.isdecimal():
            known[each.rank] = int(text)
        done.unlink(missing_ok=True)
    there = tuple(each.rank for each in ranks if (folder / each.trace_name()).exists())
    return Arrived(there, known)


def merged(
    folder: Path, world_size: int, ranks: Sequence[int], on_host: bool, most: int | None = None
) -> Timeline:
    """Read the ranks' traces and put them on one clock.

    Args:
        folder: where they are.
        world_size: ranks of the run.
        ranks: those with a trace.
        on_host: the operators of the host are the work (see `with_host_kernels`).
        most: steps to keep of each rank: the last so many; None keeps all but the first.
    """
    from gpuscope.measurement.host_kernels import with_host_kernels
    from gpuscope.measurement.profiling import with_plain_names
    from gpuscope.measurement.steady import steady
    from gpuscope.timeline.kineto import read_trace
    from gpuscope.timeline.ranks import merge

    timelines = []
    for rank in ranks:
        timeline = read_trace(folder / Place(rank, world_size).trace_name(), rank=rank)
        timelines.append(with_host_kernels(timeline) if on_host else timeline)
    return steady(with_plain_names(merge(timelines)), most)
