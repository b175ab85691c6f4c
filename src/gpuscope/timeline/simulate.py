"""When everything happens: a discrete simulation of the host and the lanes of one device.

The host issues operator after operator and runs ahead of the device until a synchronisation or a
full launch queue stops it; device tasks follow the order rules of `gpuscope.timeline.schedule`.
Steps follow each other without a break, so the period of a steady step (set by the host, by the
device, or by both in turns) comes out of the simulation and is not assumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuscope.cost.types import CostedProgram
from gpuscope.timeline.contention import Beside, Overlap, settle
from gpuscope.timeline.drawing import build_timeline
from gpuscope.timeline.intervals import union_length
from gpuscope.timeline.schedule import Schedule, build_schedule
from gpuscope.timeline.types import DEVICE_KINDS, Timeline
from gpuscope.timeline.walk import Walk, walk_steps


@dataclass(frozen=True, slots=True)
class Simulation:
    """A simulated steady step.

    Attributes:
        timeline: events of the last simulated step, origin at its first event. Its one `Step`
            window goes from the end of the step before to the end of this one, so its length is
            the period; host work that ran ahead of the device begins before the window.
        step_time_s: period of a steady step.
        device_busy_s: union of the device work of the step.
        host_busy_s: time the host works in a step (issuing, not waiting).
        host_wait_s: what is left of the period: waits for the device and for room in the launch
            queue.
        first_step_s: the first step, from an idle host and device to the end of its work.
    """

    timeline: Timeline
    step_time_s: float
    device_busy_s: float
    host_busy_s: float
    host_wait_s: float
    first_step_s: float


@dataclass(frozen=True, slots=True)
class Walked:
    """A step that was walked until it is steady.

    Attributes:
        schedule: the step as rows.
        walk: when each begins and ends.
        used: the device times that contention leaves.
        latency_s: from a launch call to its work on an idle device.
    """

    schedule: Schedule
    walk: Walk
    used: Beside
    latency_s: float


def walked(costed: CostedProgram, steps: int = 3, overlap: Overlap | None = None) -> Walked:
    """Walk a step, for all that follows from it. Arguments and errors as `simulate`."""
    schedule = build_schedule(costed)
    walk, used = contended_walk(costed, schedule, steps, overlap)
    return Walked(schedule, walk, used, costed.launch_latency_s)


def simulate(
    costed: CostedProgram,
    steps: int = 3,
    *,
    overlap: Overlap | None = None,
    done: Walked | None = None,
) -> Simulation:
    """Simulate `steps` steps back to back (a few more if not yet steady); return the last one.

    Args:
        costed: the step.
        steps: how many.
        overlap: how collectives and kernels that run at the same time slow each other
            (`contention.DeviceOverlap`); None: not at all.
        done: the step walked so before.

    Raises:
        InvalidValueError: `steps` is less than 1.
    """
    done = done or walked(costed, steps, overlap)
    schedule, walk = done.schedule, done.walk
    timeline = build_timeline(costed, schedule, walk)
    events = timeline.events
    device = events.kind < DEVICE_KINDS
    busy_ns = union_length(events.start_ns[device], events.end_ns[device])
    return Simulation(
        timeline=timeline,
        step_time_s=walk.period_s,
        device_busy_s=busy_ns * 1e-9,
        host_busy_s=schedule.host_step_s,
        host_wait_s=max(0.0, walk.period_s - schedule.host_step_s),
        first_step_s=walk.ends_s[0],
    )


def contended_walk(
    costed: CostedProgram, schedule: Schedule, steps: int, overlap: Overlap | None
) -> tuple[Walk, Beside]:
    """Walk a step whose tasks slow each other; also the device times that they then take.

    Raises:
        InvalidValueError: `steps` is less than 1.
    """

    def walk(times: Sequence[Beside]) -> Sequence[Walk]:
        own = times[0]
        return [
            walk_steps(
                schedule,
                costed.launch_latency_s,
                steps,
                duration_s=own.duration_s,
                held_s=own.held_s,
            )
        ]

    walks, used = settle([schedule], walk, overlap)
    return walks[0], used[0]
