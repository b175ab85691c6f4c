"""When everything happens: simulated or recorded timelines, and the memory allocator."""

from gpuscope.timeline.simulate import Simulation, simulate
from gpuscope.timeline.types import Counter, Events, Lane, Step, Timeline

__all__ = [
    "Counter",
    "Events",
    "Lane",
    "Simulation",
    "Step",
    "Timeline",
    "simulate",
]
