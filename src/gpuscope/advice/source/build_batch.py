"""The batch of a `build` function: an argument named `batch` or `batch_size` with a default."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["BATCH_NAMES", "batch_of", "with_batch"]

BATCH_NAMES = ("batch", "batch_size")


def batch_of(build: Callable[..., Any]) -> tuple[str, int] | None:
    """The argument's name and its value as things stand; None where there is none."""
    try:
        parameters = inspect.signature(build, follow_wrapped=False).parameters
    except (TypeError, ValueError):
        return None
    for name in BATCH_NAMES:
        value = parameters[name].default if name in parameters else None
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return name, value
    return None


def with_batch(build: Callable[..., Any], batch: int) -> Callable[..., Any]:
    """The same build with another batch.

    Raises:
        ValueError: it has no such argument.
    """
    found = batch_of(build)
    if found is None:
        raise ValueError("no argument 'batch'")
    changed = functools.partial(build, **{found[0]: batch})
    functools.update_wrapper(changed, build)
    return changed
