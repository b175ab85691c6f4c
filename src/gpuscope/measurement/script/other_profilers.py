"""The program's own profiler: there can be one at a time, and its own comes first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def profiling() -> bool:
    """Return whether the program is under a profiler of its own at the moment."""
    import torch

    return bool(torch._C._autograd._profiler_enabled())


@contextmanager
def before_another_profiler(call: Callable[[], None]) -> Iterator[None]:
    """Call `call` before any other profiler is prepared inside the block."""
    from torch.autograd import profiler

    profile: Any = profiler.profile
    original: Any = getattr(profile, "_prepare_trace", None)
    if original is None:
        yield
        return

    def prepare(self: Any, *args: Any, **kwargs: Any) -> Any:
        profile._prepare_trace = original
        call()
        return original(self, *args, **kwargs)

    profile._prepare_trace = prepare
    try:
        yield
    finally:
        profile._prepare_trace = original
