"""Keywords that had another name: they keep working, with a warning."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def renamed(**names: str) -> Callable[[Function], Function]:
    """Let a function take keywords by their former names.

    Args:
        names: former name -> name.
    """

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def taking(*args: Any, **kwargs: Any) -> Any:
            for former, name in names.items():
                if former in kwargs:
                    warnings.warn(
                        f"{function.__name__}({former}=) is {name}= now",
                        DeprecationWarning,
                        stacklevel=2,
                    )
                    kwargs.setdefault(name, kwargs.pop(former))
            return function(*args, **kwargs)

        return taking  # type: ignore[return-value]

    return decorate
