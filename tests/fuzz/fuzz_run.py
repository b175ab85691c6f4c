"""One input against one reader, with its time and its memory watched."""

from __future__ import annotations

import signal
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from fuzz_targets import Target

from gpuscope.errors import GpuscopeError

MOST_S = 10
"""No input may take longer, of the processor: the machine may be busy."""

MOST_BYTES = 1 << 30
"""Memory that reading one input, all of them far below 10 MB, may add."""


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


def tried(target: Target, seed: int, numbers: Iterator[int] | range, folder: Path) -> Tally:
    """Try some inputs.

    Args:
        target: the reader.
        seed: of the random generator.
        numbers: which inputs.
        folder: for the input's file.
    """
    tally = Tally(target.name, seed)
    warnings.simplefilter("ignore")
    path = folder / target.file
    path.write_bytes(input_of(target, seed, -1))
    with suppress(Exception):
        target.read(path)  # what is imported with the first input is nobody's cost
    for number in numbers:
        path.write_bytes(input_of(target, seed, number))
        begin = time.process_time()
        problem = _problem(target, path, tally)
        took_s = time.process_time() - begin
        tally.tried += 1
        if took_s > tally.slowest_s:
            tally.slowest_s, tally.slowest = took_s, number
        if problem:
            tally.count[problem] += 1
            if len(kept := tally.failures.setdefault(problem, [])) < 5:
                kept.append(number)
    tally.peak_bytes = _peak_bytes()
    return tally


def _problem(target: Target, path: Path, tally: Tally) -> str:
    """What went wrong with an input, in a line that is the same for the same mistake; ""."""
    try:
        with _limited():
            target.read(path)
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


@contextmanager
def _limited() -> Iterator[None]:
    """At most `MOST_S` of time; memory beyond `MOST_BYTES` is an error like others."""
    import resource

    def stop(number: int, frame: FrameType | None) -> None:
        raise Hang

    before = signal.signal(signal.SIGPROF, stop)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MOST_BYTES, hard))
    signal.setitimer(signal.ITIMER_PROF, MOST_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _peak_bytes() -> int:
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


__all__ = ["MOST_BYTES", "MOST_S", "Tally", "input_of", "shown", "tried"]
