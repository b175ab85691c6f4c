"""When Python looks for cyclic garbage: seldom, where millions of small objects are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["no_collection", "rare_collection"]


@contextmanager
def no_collection() -> Iterator[None]:
    """No garbage collection meanwhile: many small objects without cycles are made.

    Looking for cycles among them would take longer than all the rest.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def rare_collection() -> None:
    """Look for cycles rarely, to the end of this process: for a command, or a child of it.

    It lives for seconds and makes millions of objects that stay; searching them for cycles took a
    quarter of its time.
    """
    gc.set_threshold(500_000, 20, 100)
