"""Runs of small kernels, one after the other on a stream, that come again and again.

Between two products, attentions or collectives a program issues kernels that only move data:
activations, norms, casts, copies. Such a run is what a compiler would fuse, or a graph launch at
once. Runs of the same kernels are one sequence, with how often it comes and what it takes, the gaps
within it counted: they go with the launches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from gpuscope.analysis.columns import present
from gpuscope.analysis.launches import KernelSequence
from gpuscope.analysis.symbols import kernel_family, short_symbol
from gpuscope.analysis.window import KERNEL, DeviceWork
from gpuscope.timeline.types import Timeline

FUSED = frozenset(
    {"pointwise", "normalization", "reduction", "gather", "copy", "optimizer", "fused"}
)
"""Families whose kernels only pass through memory, so that neighbours may be one."""

LONGEST = 64
"""Kernels of a run; a longer one is cut."""

_MOST = 10


def kernel_sequences(timeline: Timeline, work: DeviceWork) -> tuple[KernelSequence, ...]:
    """Return the sequences of a window, those that take longest first; ten at most.

    Args:
        timeline: of the work.
        work: device work of one rank in the window.
    """
    found: dict[tuple[int, ...], list[int]] = defaultdict(lambda: [0, 0, 0])
    families = {name: kernel_family(timeline.names[name]) in FUSED for name in present(work.name)}
    for lane in present(work.lane):
        rows = (work.lane == lane).nonzero()[0]
        small = [
            kind == KERNEL and families[name]
            for kind, name in zip(work.kind[rows].tolist(), work.name[rows].tolist(), strict=True)
        ]
        for begin, end in _runs(small):
            run = rows[begin:end]
            sums = found[tuple(work.name[run].tolist())]
            took = int((work.end_ns[run] - work.start_ns[run]).sum())
            sums[0] += 1
            sums[1] += took
            sums[2] += max(int(work.end_ns[run[-1]] - work.start_ns[run[0]]) - took, 0)
    steps = work.window.steps
    again = [item for item in found.items() if item[1][0] > 1]
    again.sort(key=lambda item: -(item[1][1] + item[1][2]))
    return tuple(
        KernelSequence(
            tuple(short_symbol(timeline.names[name]) for name in names),
            count / steps,
            took * 1e-9 / steps,
            gap * 1e-9 / steps,
        )
        for names, (count, took, gap) in again[:_MOST]
    )


def _runs(small: Sequence[bool]) -> list[tuple[int, int]]:
    """Begin and end of runs of at least two, at most `LONGEST`."""
    runs, begin = [], None
    for at, is_small in enumerate([*small, False]):
        if begin is not None and (not is_small or at - begin == LONGEST):
            if at - begin > 1:
                runs.append((begin, at))
            begin = at if is_small else None
        elif begin is None and is_small:
            begin = at
    return runs
