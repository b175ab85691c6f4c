"""What a bench gets to work with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuscope.measurement.bench.types import Failure, Point, Value

if TYPE_CHECKING:
    from gpuscope.hardware import Device
    from gpuscope.measurement.accelerator import Accelerator
    from gpuscope.measurement.bench.harness import BenchCase, KernelTimer
    from gpuscope.measurement.sensors import Sensor

Say = Callable[[str], None]


@dataclass(slots=True)
class Context:
    """One bench's surroundings.

    Attributes:
        accelerator: to measure on.
        device: its catalogue entry; None if it has none, or is a slice of one.
        sensor: of the device; None if there is none.
        quick: fewer points and repetitions.
        deadline_s: on the clock of `time.perf_counter`; begin nothing after it.
        done: keys of points that a resumed run has already (see `Point.key`).
        gpus: how many devices may take part.
        timer: measures kernels.
        say: tells the user what is going on.
        left: points that time did not suffice for.
        failures: what could not be measured.
    """

    accelerator: Accelerator
    device: Device | None
    sensor: Sensor | None
    timer: KernelTimer
    quick: bool = False
    deadline_s: float = float("inf")
    done: frozenset[tuple[str, str, str, str]] = frozenset()
    gpus: int = 1
    say: Say = lambda _text: None
    left: int = 0
    failures: list[Failure] = field(default_factory=list)

    def time(
        self, bench: str, cases: Iterable[BenchCase], *, rest: float = 0.0, chunk: int | None = None
    ) -> Iterator[Point]:
        """Time calls by their kernels; see `KernelTimer.run`.

        Args:
            bench: name that the points get.
            cases: most important first: time may not suffice for all.
            rest: after each state, as a multiple of the time that it worked.
            chunk: calls per profiler session.
        """
        from gpuscope.measurement.bench.harness import CHUNK

        return self.timer.run(
            bench,
            cases,
            done=self.done,
            deadline_s=self.deadline_s,
            rest=rest,
            chunk=chunk or CHUNK,
        )

    def is_done(self, bench: str, family: str, params: Mapping[str, Value], state: str) -> bool:
        """Whether a resumed run has this point already."""
        from gpuscope.measurement.bench.types import params_key

        return (bench, family, params_key(params), state) in self.done

    def fail(self, bench: str, family: str, params: Mapping[str, Value], why: str) -> None:
        """Note that a point could not be measured."""
        self.failures.append(Failure(bench, family, params, why))
