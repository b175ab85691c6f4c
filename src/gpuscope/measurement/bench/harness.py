"""True device times of PyTorch calls: named ranges under the profiler (CUPTI, roctracer, ...).

States: "hot" (the same buffers back to back), "cold" (a buffer several times the last-level cache
is written before every call, so the cache is full of dirty lines), "cold_clean" (it is read). Data
are random: power, and with it the clock, depends on the bits. Families that draw much power rest
after each state, so that the power limit does not lower the clock in the middle of a measurement;
the clock read at the end of each state is saved with it.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuscope.document.text import Text, joined
from gpuscope.measurement.bench.limits import LINK, bound, link_bound
from gpuscope.measurement.bench.trace_kernels import MARK, CallTimes, events_by_range, summarise
from gpuscope.measurement.bench.types import Failure, Point, Value, p90, params_key
from gpuscope.measurement.failure import is_out_of_memory

if TYPE_CHECKING:
    from gpuscope.hardware import Device
    from gpuscope.measurement.accelerator import Accelerator
    from gpuscope.measurement.sensors import Reading, Sensor

FLUSH_BYTES = 256 * 1024 * 1024
"""Larger than any current GPU's last-level cache (H200: 60 MB, MI300X: 256 MB)."""

CHUNK = 120
"""Calls per profiler session: bounds the trace, and what an interruption can lose."""

STATE_S = 0.06
"""About the longest that the repetitions of one state may take: slower devices repeat less."""

REST_ABOVE_S, REST_MOST_S = 0.003, 0.25
"""Rest only after this much work in one state, and never longer than this."""

READ_EVERY_S = 0.02
"""A reading takes about a millisecond and clocks change slowly: short states share one."""

CACHED_MOST = 0.4
"""Share of the device's memory that may stay in PyTorch's cache between calls."""

ANY_STATE = "*"
"""In a key of what is done: no state of this case is to be tried (again)."""

Make = Callable[[str], Callable[[], object]]


@dataclass(frozen=True, slots=True)
class BenchCase:
    """One call to measure.

    Attributes:
        family, params: see `Point`.
        make: allocates the inputs on a device ("cuda:0", "meta") and returns the call to repeat.
        states: to measure in.
        repetitions: in each state, less for long calls.
        dtype: rate name of the matrix unit's peak; "" if it has no part in it.
        flops, bytes: see `Point`.
        timed: what counts as the time of a call (see `trace_kernels.TIMED`).
        link_bytes: bytes that one direction of a link carries; None if no link bounds it.
        peer: the link is that to another device, not that to the host.
    """

    family: str
    params: Mapping[str, Value]
    make: Make
    states: tuple[str, ...] = ("hot", "cold")
    repetitions: int = 8
    dtype: str = ""
    flops: float | None = None
    bytes: float | None = None
    timed: str = "sum"
    link_bytes: float | None = None
    peer: bool = False


@dataclass(slots=True)
class _State:
    """What one state of one case left behind while the profiler ran."""

    number: int
    case: BenchCase
    name: str
    clock_hz: float | None
    throttled: tuple[str, ...] | None


@dataclass(slots=True)
class KernelTimer:
    """Times cases on one device.

    Attributes:
        accelerator: to run on.
        device: its catalogue entry, for the physical limits; None if there is none.
        sensor: for clocks; None if there is none.
        failures: cases that could not be measured, by bench.
        left: cases that time did not suffice for.
    """

    accelerator: Accelerator
    device: Device | None = None
    sensor: Sensor | None = None
    failures: list[Failure] = field(default_factory=list)
    left: int = 0
    _flush: Any = None
    _reading: Reading | None = None
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def run(
        self,
        bench: str,
        cases: Iterable[BenchCase],
        *,
        done: frozenset[tuple[str, str, str, str]],
        deadline_s: float,
        rest: float = 0.0,
        chunk: int = CHUNK,
    ) -> Iterator[Point]:
        """Time the cases in their order.

        Args:
            bench: name that the points get.
            cases: equal ones are measured once.
            done: keys of points that are there already.
            deadline_s: on the clock of `time.perf_counter`; no case is begun after it.
            rest: after each state, as a multiple of the time that it worked.
            chunk: cases per profiler session.

        Raises:
            KeyboardInterrupt: after the points of the calls that did run were yielded.
        """
        for group in _chunks(_wanted(bench, cases, done), chunk):
            if time.perf_counter() > deadline_s:
                self.left += len(group)
                continue
            trace, states, interrupted = self._session(bench, group, deadline_s, rest)
            yield from self._points(bench, trace, states)
            if interrupted:
                raise KeyboardInterrupt

    def _session(
        self,
        bench: str,
        group: Sequence[tuple[BenchCase, tuple[str, ...]]],
        deadline_s: float,
        rest: float,
    ) -> tuple[bytes, list[_State], bool]:
        from torch.profiler import profile

        from gpuscope.measurement.profiling import activities

        states: list[_State] = []
        interrupted = False
        with profile(activities=activities(self.accelerator)) as session:
            try:
                for number, (case, names) in enumerate(group):
                    if time.perf_counter() > deadline_s:
                        self.left += len(group) - number
                        break
                    self._case(bench, case, names, states, rest)
            except KeyboardInterrupt:
                interrupted = True
            self.accelerator.synchronize()
        with tempfile.TemporaryDirectory(prefix="gpuscope-") as folder:
            path = Path(folder) / "trace.json"
            session.export_chrome_trace(str(path))
            return path.read_bytes(), states, interrupted

    def _case(
        self, bench: str, case: BenchCase, names: Sequence[str], states: list[_State], rest: float
    ) -> None:
        try:
            self._states(case, names, states, rest)
        except Exception as error:
            if is_lost(error):
                text = f"The device failed: {reason(error)}"
                self.failures.append(Failure(bench, case.family, case.params, text, lost=True))
                raise
            self.failures.append(Failure(bench, case.family, case.params, reason(error)))
            self._free()

    def _states(
        self, case: BenchCase, names: Sequence[str], states: list[_State], rest: float
    ) -> None:
        from torch.profiler import record_function

        call = case.make(self.accelerator.torch_name)
        call()
        self.accelerator.synchronize()
        began = time.perf_counter()
        call()
        self.accelerator.synchronize()
        once_s = time.perf_counter() - began
        repetitions = max(2, min(case.repetitions, int(STATE_S / max(once_s, 1e-6))))
        for name in names:
            began = time.perf_counter()
            number = next(self._numbers)
            # The first hot call finds the cache as the flush of the state before left it.
            for repetition in range(repetitions + (name == "hot")):
                self._prepare(name)
                mark = "" if name == "hot" and repetition == 0 else MARK
                with record_function(f"{mark}{number}:{repetition}"):
                    call()
            states.append(self._state(number, case, name))
            self.accelerator.synchronize()
            worked_s = time.perf_counter() - began
            if rest and worked_s > REST_ABOVE_S:
                time.sleep(min(REST_MOST_S, rest * worked_s))
        del call
        self._free(only_if_much=True)

    def _state(self, number: int, case: BenchCase, name: str) -> _State:
        """Read the clock while the device still works."""
        if self.sensor is None:
            return _State(number, case, name, None, None)
        if self._reading is None or time.perf_counter() - self._reading.time_s > READ_EVERY_S:
            self._reading = self.sensor.read()
        reading = self._reading
        return _State(number, case, name, reading.sm_clock_hz, reading.throttle_reasons)

    def _prepare(self, state: str) -> None:
        if state == "hot":
            return
        if self._flush is None:
            import torch

            self._flush = torch.randn(FLUSH_BYTES // 4, device=self.accelerator.torch_name)
        if state == "cold":
            self._flush.fill_(1.0)
        elif state == "cold_clean":
            self._flush.sum()

    def _points(self, bench: str, trace: bytes, states: Sequence[_State]) -> Iterator[Point]:
        if not states:
            return
        repetitions: dict[int, list[list[Any]]] = {}
        for mark, events in events_by_range(trace).items():
            number = int(mark.removeprefix(MARK).partition(":")[0])
            repetitions.setdefault(number, []).append(events)
        for state in states:
            times = summarise(repetitions.get(state.number, []), state.case.timed)
            if times is None:
                failure = Failure(
                    bench,
                    state.case.family,
                    state.case.params,
                    Text("It ran nothing on the device."),
                )
                self.failures.append(failure)
            else:
                yield self._point(bench, state, times)

    def _point(self, bench: str, state: _State, times: CallTimes) -> Point:
        case, seconds = state.case, times.seconds
        limit, bound_s = self._bound(case, hot=state.name == "hot")
        return Point(
            bench,
            case.family,
            case.params,
            state.name,
            statistics.median(seconds),
            min(seconds),
            p90(seconds),
            len(seconds),
            case.flops,
            case.bytes,
            limit,
            bound_s,
            times.kernels,
            state.clock_hz,
            state.throttled,
        )

    def _bound(self, case: BenchCase, *, hot: bool) -> tuple[str, float | None]:
        if case.link_bytes is not None:
            return LINK, link_bound(self.device, case.link_bytes, peer=case.peer)
        return bound(self.device, dtype=case.dtype, flops=case.flops, traffic=case.bytes, hot=hot)

    def _free(self, only_if_much: bool = False) -> None:
        """Give cached memory back, so that the next large call finds it in one piece."""
        import torch

        if not hasattr(torch, self.accelerator.kind):
            return
        module = getattr(torch, self.accelerator.kind)
        if only_if_much:
            total = self.accelerator.total_bytes()
            reserved = getattr(module, "memory_reserved", lambda _: 0)(self.accelerator.index)
            if total is None or reserved < CACHED_MOST * total:
                return
        if hasattr(module, "empty_cache"):
            module.empty_cache()


def is_lost(error: BaseException) -> bool:
    """Whether the device can no longer be used by this process after the error."""
    text = str(error)
    lost = ("CUDA error" in text or "HIP error" in text) and "out of memory" not in text
    unsupported = ("no kernel image", "not supported", "invalid argument", "invalid configuration")
    return lost and not any(part in text for part in unsupported)


def reason(error: BaseException) -> str:
    """Return one line on why a call failed."""
    first = str(error).strip().split("\n")[0]
    if is_out_of_memory(error):
        sentences = [s for s in first.split(". ") if "Tried to allocate" in s]
        what = (sentences[0] + "." if sentences else "").replace("..", ".")
        return joined((Text("Out of memory."), what), " ")
    return f"{type(error).__name__}: {first}"[:300]


def _wanted(
    bench: str, cases: Iterable[BenchCase], done: frozenset[tuple[str, str, str, str]]
) -> Iterator[tuple[BenchCase, tuple[str, ...]]]:
    """Each case once, with the states that are still missing."""
    seen: set[tuple[str, str]] = set()
    for case in cases:
        key = (case.family, params_key(case.params))
        if key in seen:
            continue
        seen.add(key)
        missing = tuple(s for s in case.states if (bench, *key, s) not in done)
        if missing and (bench, *key, ANY_STATE) not in done:
            yield case, missing


def _chunks(
    cases: Iterable[tuple[BenchCase, tuple[str, ...]]], size: int
) -> Iterator[list[tuple[BenchCase, tuple[str, ...]]]]:
    group: list[tuple[BenchCase, tuple[str, ...]]] = []
    for case in cases:
        group.append(case)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group
