"""A second thread for independent analyses of a long recording.

What an analysis does with a million events is numpy's work, during which other threads run. Short
recordings stay on one thread: starting another takes longer than it saves.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

T = TypeVar("T")

LEAST_EVENTS = 100_000
"""Fewest events that a second thread is worth."""


class Ask(Protocol):
    """Takes a call and returns one that waits for its result, or raises its error."""

    def __call__(self, call: Callable[[], T], /) -> Callable[[], T]:
        """Begin the call."""


@contextmanager
def second_thread(events: int, cores: int | None = None) -> Iterator[Ask]:
    """Give a function that runs calls one after the other beside this thread.

    Args:
        events: how many events are looked at; with few, calls run at once on this thread.
        cores: how many there are; None: as the system says. With one, calls run on this thread.
    """
    if events < LEAST_EVENTS or (cores or os.cpu_count() or 1) < 2:
        yield _at_once
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1, "gpuscope-analysis") as thread:

        def ask(call: Callable[[], T], /) -> Callable[[], T]:
            return thread.submit(call).result

        yield ask


def _at_once(call: Callable[[], T], /) -> Callable[[], T]:
    result = call()
    return lambda: result
