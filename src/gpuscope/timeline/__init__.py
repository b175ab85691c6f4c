"""When everything happens: simulated or recorded timelines, and the memory allocator."""

from gpuscope.timeline.kineto import read_trace
from gpuscope.timeline.memory import Holder, MemoryTrace, attach_memory, simulate_memory
from gpuscope.timeline.perfetto import write_chrome_trace
from gpuscope.timeline.simulate import Simulation, simulate
from gpuscope.timeline.simulate_ranks import RankSimulation, simulate_ranks
from gpuscope.timeline.types import Counter, Events, Lane, Step, Timeline
from gpuscope.timeline.uncertainty import step_time_interval

__all__ = [
    "Counter",
    "Events",
    "Holder",
    "Lane",
    "MemoryTrace",
    "RankSimulation",
    "Simulation",
    "Step",
    "Timeline",
    "attach_memory",
    "read_trace",
    "simulate",
    "simulate_memory",
    "simulate_ranks",
    "step_time_interval",
    "write_chrome_trace",
]
