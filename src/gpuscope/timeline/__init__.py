"""When everything happens: simulated or recorded timelines, and the memory allocator.

Here stands what every prediction needs. Readers (`kineto`, `nsys`, `snapshot`), the writer
(`perfetto`) and what plays several ranks (`simulate_ranks`, `recost_ranks`) are loaded by whoever
asks for them.
"""

from gpuscope.timeline.memory import Holder, MemoryTrace, attach_memory, simulate_memory
from gpuscope.timeline.simulate import Simulation, simulate
from gpuscope.timeline.types import Counter, Events, Lane, Step, Timeline
from gpuscope.timeline.uncertainty import step_time_interval

__all__ = [
    "Counter",
    "Events",
    "Holder",
    "Lane",
    "MemoryTrace",
    "Simulation",
    "Step",
    "Timeline",
    "attach_memory",
    "simulate",
    "simulate_memory",
    "step_time_interval",
]
