"""How fast this host runs plain Python: loops, calls, attribute look-ups; one core's arithmetic.

Fixed work, the same everywhere, so that one host can be told from another.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from gpuscope.measurement.bench.host_timing import HostTimer


def _integers() -> None:
    total = 0
    for i in range(200_000):
        total += i * i


def _calls() -> None:
    def nothing(a: int) -> int:
        return a

    for i in range(200_000):
        nothing(i)


def _keyword_calls() -> None:
    def inner(x: int, *, a: int = 0, **kwargs: int) -> int:
        return x + a

    def outer(x: int, **kwargs: int) -> int:
        return inner(x, **kwargs)

    options = {"a": 1, "b": 2, "c": 3}
    for i in range(50_000):
        outer(i, **options)


def _library_calls() -> None:
    found = {"a": 1}
    for _ in range(200_000):
        found.get("a")


def _attributes() -> None:
    module = nn.Linear(2, 2)
    for _ in range(50_000):
        _ = module.weight


def _checks() -> None:
    values = [1, "a", None, 2.0]
    for i in range(50_000):
        value = values[i & 3]
        if isinstance(value, str) or getattr(value, "absent", None) is not None:
            hasattr(value, "upper")


LOOPS: tuple[tuple[str, Callable[[], None], float], ...] = (
    ("int_loop_1e6", _integers, 2e5),
    ("call_loop_1e6", _calls, 2e5),
    ("keyword_calls", _keyword_calls, 5e4),
    ("library_calls", _library_calls, 2e5),
    ("module_getattr", _attributes, 5e4),
    ("type_checks", _checks, 5e4),
)
"""Name, loop, iterations. The first two keep the names of the first recordings."""


def _as_it_is(loop: Callable[[], None]) -> Callable[[], None]:
    return loop


def measure_python(timer: HostTimer) -> None:
    """Seconds an iteration of each loop; seconds of a product on one core."""
    for name, loop, count in LOOPS:
        timer.once("python", name, "per_iteration", partial(_as_it_is, loop), count, 5)
    a = torch.randn(1000, 1000)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        timer.once("python", "cpu_mm_1000_one_thread", "whole", lambda: lambda: a @ a, 1, 5)
    finally:
        torch.set_num_threads(threads)
