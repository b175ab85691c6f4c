"""Launches that were late: the device was free, and their work began long after the others' does.

Most work that finds the device free begins a few microseconds after its call. What begins much
later was held up between the two: by the driver (a module is loaded, memory is mapped), by a host
thread that lost its core within the call, by another process on the device. A median hides them.
"""

from __future__ import annotations

import numpy as np

from gpuscope.analysis.launches import DelayedLaunch, LaunchDelays, LaunchPairs
from gpuscope.analysis.waits import launch_rows
from gpuscope.analysis.window import DeviceWork
from gpuscope.timeline.types import Ints, Timeline

MANY_TIMES = 10.0
"""So many times the median is late."""

LEAST_NS = 20_000
"""Nothing below this is late: a timer's grain, an interrupt."""

FEWEST = 8
"""Launches that a median needs."""

_MOST_ROWS = 10


def launch_delays(
    timeline: Timeline, work: DeviceWork, launch: Ints | None = None
) -> LaunchDelays | None:
    """Return the late launches of a window; None where too few found the device free.

    Args:
        timeline: a recording.
        work: device work of one rank in the window.
        launch: as `waits.launch_rows` returns it, where it is at hand.
    """
    if not len(work):
        return None
    events = timeline.events
    pairs = LaunchPairs.of(timeline, work, launch_rows(timeline) if launch is None else launch)
    free = np.flatnonzero(pairs.unhindered)
    if len(free) < FEWEST:
        return None
    delay = pairs.latency_ns[free]
    typical = float(np.median(delay))
    late = free[delay > max(MANY_TIMES * typical, LEAST_NS)]
    late = late[np.argsort(-pairs.latency_ns[late], kind="stable")]
    rows = []
    for pair in late[:_MOST_ROWS].tolist():
        call = int(pairs.call[pair])
        took = int(pairs.latency_ns[pair])
        rows.append(
            DelayedLaunch(
                kernel=timeline.names[events.name[pairs.event[pair]]],
                call=timeline.names[events.name[call]],
                delay_s=took * 1e-9,
                call_s=min(int(events.duration_ns[call]), took) * 1e-9,
                at_s=(int(events.start_ns[call]) - work.window.start_ns) * 1e-9,
            )
        )
    lost = float(pairs.latency_ns[late].sum()) - typical * len(late)
    return LaunchDelays(
        len(late), len(free), typical * 1e-9, lost * 1e-9 / work.window.steps, tuple(rows)
    )
