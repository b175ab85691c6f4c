"""When everything happens: simulated or recorded timelines, and the memory allocator."""

from gpuscope.timeline.simulate import Simulation, simulate
from gpuscope.timeline.types import Counter, Events, Lane, Step, Timeline
from gpuscope.timeline.uncertainty import step_time_interval

__all__ = [
    "Counter",
    "Events",
    "Lane",
    "Simulation",
    "Step",
    "Timeline",
    "simulate",
    "step_time_interval",
]
