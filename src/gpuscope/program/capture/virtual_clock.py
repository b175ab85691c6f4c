"""The clock that a whole script reads while it is captured: it shows predicted times.

It advances by what each operator costs on the device chosen (`Prices`), by the Python between the
operators and by `time.sleep`; device queues run behind it as on a real device. So what a script
measures by `time`, `timeit` and CUDA events, and loops that run until a time has come, turn out as
predicted. Left out: the power limit, kernels that slow each other, what a real first call prepares.
"""

from __future__ import annotations

import time
import timeit
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gpuscope.program.capture.streams import Points
from gpuscope.program.script.prices import Prices
from gpuscope.program.types import Op

__all__ = ["VirtualClock", "shown"]

_QUEUE_DEPTH = 1024
"""Launches that a stream holds, see `gpuscope.timeline.walk.LAUNCH_QUEUE_DEPTH`."""

_READ_S = 50e-9
"""What reading a clock takes: loops that wait for a time to come must come to an end."""


class VirtualClock:
    """Seconds since the script began, on the host and on each stream of the device.

    Args:
        prices: what operators cost.
        recorder: of the capture; tells how much Python has run.
    """

    def __init__(self, prices: Prices, recorder: Any) -> None:
        self.prices = prices
        self._recorder = recorder
        self._host_s = 0.0
        self._ends: defaultdict[int, float] = defaultdict(float)
        self._begun: defaultdict[int, deque[float]] = defaultdict(
            lambda: deque(maxlen=_QUEUE_DEPTH)
        )
        self._over: dict[int, float] = {}
        self._calls = self._instructions = 0

    def heard(self, op: Op) -> None:
        """An operator was called."""
        prices = self.prices
        price = prices.of(op)
        self._host_s += price.host_s
        self._calls, self._instructions = self._python()
        order = self._recorder.order
        waited = max((self._over.get(order.base + w, 0.0) for w in op.waits), default=0.0)
        for stream, seconds in price.device:
            begun = self._begun[stream]
            if len(begun) == _QUEUE_DEPTH:
                self._host_s = max(self._host_s, begun[0])
            begin = max(self._host_s + prices.latency_s, self._ends[stream] + prices.gap_s, waited)
            begun.append(begin)
            self._over[order.clock - 1] = self._ends[stream] = begin + seconds
        if op.sync:
            self._host_s = max(self._host_s, self._done_s() + prices.latency_s)
        self._host_s += price.after_s

    def host_s(self) -> float:
        """Now, by the host's clock."""
        calls, instructions = self._python()
        self._host_s += _READ_S
        self._host_s += max(0, calls - self._calls) * self.prices.python_call_s
        self._host_s += max(0, instructions - self._instructions) * self.prices.python_instruction_s
        self._calls, self._instructions = calls, instructions
        return self._host_s

    def event_s(self, stream: int, points: Points) -> float:
        """When a stream comes to an event that is recorded now and stands for these points."""
        waited = (self._over.get(number, 0.0) for number in points.values())
        return max(self.host_s(), self._ends[stream], *waited)

    def sleep(self, seconds: float) -> None:
        """Nothing is done for some seconds."""
        self._host_s += max(0.0, seconds)

    def _done_s(self) -> float:
        return max(self._ends.values(), default=0.0)

    def _python(self) -> tuple[int, int]:
        python = self._recorder.python
        return python.calls, python.instructions


@contextmanager
def shown(prices: Prices, recorder: Any) -> Iterator[None]:
    """Inside of the block the script reads predicted times, and the chosen device's name."""
    import torch

    from gpuscope.program.capture.cuda import FakeEvent
    from gpuscope.program.capture.patches import patches

    clock = VirtualClock(prices, recorder)
    began = {name: getattr(time, name)() for name in _SECONDS}
    before = recorder.heard
    recorder.heard = clock.heard
    try:
        with patches() as patch:
            for name, base in began.items():
                read = _reading(clock, base)
                patch.set(time, name, read)
                patch.set(time, f"{name}_ns", _in_ns(read))
                if name == "perf_counter":
                    _time_it_by(patch, read)
            patch.set(time, "sleep", clock.sleep)
            patch.everywhere(FakeEvent, "clock", clock)
            cuda: Any = torch.cuda
            properties = cuda.get_device_properties()
            total = prices.device_bytes
            patch.set(cuda, "get_device_name", lambda device=None: prices.device_name)
            patch.everywhere(properties, "name", prices.device_name)
            patch.everywhere(properties, "total_memory", total)
            patch.set(
                cuda,
                "mem_get_info",
                lambda device=None: (max(0, total - cuda.memory_reserved()), total),
            )
            yield
    finally:
        recorder.heard = before


_SECONDS = ("time", "perf_counter", "monotonic", "process_time")


def _reading(clock: VirtualClock, base: float) -> Any:
    return lambda: base + clock.host_s()


def _in_ns(read: Any) -> Any:
    return lambda: int(read() * 1e9)


def _time_it_by(patch: Any, read: Any) -> None:
    """`timeit`, and `torch.utils.benchmark` by it, keep the clock that they were imported with."""
    patch.set(timeit, "default_timer", read)
    for function in (timeit.Timer.__init__, timeit.timeit, timeit.repeat):
        defaults = function.__defaults__ or ()
        patch.on_undo(lambda f=function, d=defaults: setattr(f, "__defaults__", d))
        function.__defaults__ = tuple(read if d is _TIMER else d for d in defaults)


_TIMER = timeit.default_timer
