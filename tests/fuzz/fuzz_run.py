"""One input against one reader, with its time and its memory watched."""

from __future__ import annotations

import os
import signal
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from fuzz_mutations import bytes_of
from fuzz_targets import Make, Target

from gpuscope.errors import GpuscopeError

MOST_S = 10
"""No input may take longer, of the processor: the machine may be busy."""

MOST_BYTES = 1 << 30
"""Memory that reading one input, all of them far below 10 MB, may add."""


QUICK_FROM = 256
"""Inputs that `quick_input_of` damages further."""

_LIMIT_EVERY = 64
"""Inputs between two looks at the memory in use, from which the limit is counted."""

InputOf = Callable[[Target, int, int], bytes]


class Hang(BaseException):
    """An input took too long."""


@dataclass
class Tally:
    """What became of the inputs of one target.

    Attributes:
        tried, refused: inputs, and those that ended in an error of gpuscope's.
        failures: kind and place of each other error -> the numbers of its inputs, the first ones.
        slowest_s, slowest: the longest, and its number.
        peak_bytes: most resident memory, of the whole process.
    """

    target: str
    seed: int
    tried: int = 0
    refused: int = 0
    failures: dict[str, list[int]] = field(default_factory=dict)
    count: Counter[str] = field(default_factory=Counter)
    slowest_s: float = 0.0
    slowest: int = -1
    peak_bytes: int = 0


def input_of(target: Target, seed: int, number: int) -> bytes:
    """The input that a seed and a number name."""
    return target.make(Random(f"{target.name}/{seed}/{number}"))


def quick_input_of(target: Target, seed: int, number: int) -> bytes:
    """The same, made in microseconds: one of `QUICK_FROM` others, damaged in one more place."""
    data = _made(target.name, target.make, seed, number % QUICK_FROM)
    return bytes_of(Random(f"{target.name}/{seed}/bytes/{number}"), data, (data,), most=1)


@cache
def _made(name: str, make: Make, seed: int, number: int) -> bytes:
    return make(Random(f"{name}/{seed}/{number}"))


def tried(
    target: Target, seed: int, numbers: Iterable[int], folder: Path, *, input_of: InputOf = input_of
) -> Tally:
    """Try some inputs.

    Args:
        target: the reader.
        seed: of the random generator.
        numbers: which inputs.
        folder: for the input's file.
        input_of: makes them.
    """
    trial = Trial(target, seed, folder)
    with trial.watched():
        for number in numbers:
            trial.one(input_of(target, seed, number), number)
    return trial.tally


class Trial:
    """Inputs given to one reader, one after another; its `tally` tells what became of them."""

    def __init__(self, target: Target, seed: int, folder: Path) -> None:
        self.target, self.tally, self._path = target, Tally(target.name, seed), folder / target.file
        self._begun_s: float | None = None
        warnings.simplefilter("ignore")
        self._path.write_bytes(input_of(target, seed, -1))
        with suppress(Exception):
            target.read(self._path)  # what is imported with the first input is nobody's cost
        self._file = self._path.open("r+b")  # kept open: a fifth of a small input's time

    def one(self, data: bytes, number: int) -> str:
        """Try an input; what went wrong with it, "" for nothing."""
        tally = self.tally
        if tally.tried % _LIMIT_EVERY == 0:
            _limit_memory()
        os.ftruncate(self._file.fileno(), os.pwrite(self._file.fileno(), data, 0))
        begin = self._begun_s = time.process_time()
        problem = _problem(self)
        took_s = time.process_time() - begin
        tally.tried += 1
        if took_s > tally.slowest_s:
            tally.slowest_s, tally.slowest = took_s, number
        if problem:
            tally.count[problem] += 1
            if len(kept := tally.failures.setdefault(problem, [])) < 5:
                kept.append(number)
        return problem

    def read(self) -> None:
        """Read the file; `Hang` where it takes too long."""
        try:
            self.target.read(self._path)
        finally:
            self._begun_s = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """At most `MOST_S` of time for each input; memory beyond `MOST_BYTES` is an error."""
        import resource

        def look(number: int, frame: FrameType | None) -> None:
            if self._begun_s is not None and time.process_time() - self._begun_s > MOST_S:
                raise Hang

        before = signal.signal(signal.SIGPROF, look)
        limits = resource.getrlimit(resource.RLIMIT_AS)
        signal.setitimer(signal.ITIMER_PROF, 1, 1)  # one timer for all: setting it costs as much
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)
            resource.setrlimit(resource.RLIMIT_AS, limits)
            self.tally.peak_bytes = peak_bytes()


def _limit_memory() -> None:
    import resource

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (used + MOST_BYTES, hard))


def _problem(trial: Trial) -> str:
    """What went wrong with an input, in a line that is the same for the same mistake; ""."""
    target, tally = trial.target, trial.tally
    try:
        trial.read()
    except GpuscopeError as error:
        tally.refused += 1
        return _unprintable(error)
    except MemoryError as error:
        # Snapshots are read in a process of its own, which says so (`gpuscope.outside.apart`).
        return "" if target.apart else _named(error)
    except (Exception, Hang) as error:
        return _named(error)
    return ""


def _unprintable(error: GpuscopeError) -> str:
    """An error of gpuscope's that no terminal takes is a mistake, too."""
    from gpuscope.document.text import render

    for lang in ("en", "zh"):
        for part in (error.what, error.why, error.next_step):
            if not isinstance(part, str):
                return f"a {type(part).__name__} for a sentence"
            render(part, lang)
    return ""


def _named(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "/gpuscope/" in f.filename] or frames
    where = f"{own[-1].filename.rpartition('/gpuscope/')[2]}:{own[-1].lineno}"
    return f"{type(error).__name__} at {where}"


def peak_bytes() -> int:
    """The most memory that this process has held."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def shown(tally: Tally) -> dict[str, Any]:
    """A tally as plain data."""
    return {
        "reader": tally.target,
        "seed": tally.seed,
        "tried": tally.tried,
        "refused": tally.refused,
        "failed": sum(tally.count.values()),
        "failures": {k: {"count": n, "inputs": tally.failures[k]} for k, n in tally.count.items()},
        "slowest_s": round(tally.slowest_s, 3),
        "slowest": tally.slowest,
        "peak_bytes": tally.peak_bytes,
    }


__all__ = [
    "MOST_BYTES",
    "MOST_S",
    "Tally",
    "Trial",
    "input_of",
    "peak_bytes",
    "quick_input_of",
    "shown",
    "tried",
]
