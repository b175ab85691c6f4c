"""Modules are noticed when they are called for the first time.

The call itself is watched, not by a hook: compiled code goes through hooks, and would have to know
what they do. What is compiled is called from outside, so that its model is noticed before.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from gpuscope.advice.replaced import Replaced

__all__ = ["FirstCalls"]


class FirstCalls:
    """Tells of each module that is called and not known.

    Args:
        tell: is given the module before it runs.
    """

    def __init__(self, tell: Callable[[Any], None]) -> None:
        self._tell = tell
        self._known: weakref.WeakSet[Any] = weakref.WeakSet()
        self._on = False
        self._undo: Callable[[], None] = lambda: None

    def know(self, module: Any) -> None:
        """A module and all that it holds are known."""
        self._known.update(module.modules())

    def begin(self, replaced: Replaced) -> None:
        """Watch from now on, until `end` or the replacements are undone."""
        import torch

        original = torch.nn.Module.__call__
        is_compiling = torch.compiler.is_compiling
        self._on = True

        @functools.wraps(original)
        def called(this: Any, *args: Any, **kwargs: Any) -> Any:
            if not is_compiling() and self._on and this not in self._known:
                self._tell(this)
            return original(this, *args, **kwargs)

        def undo() -> None:
            self._on = False  # where a class has taken it over
            if torch.nn.Module.__call__ is called:
                torch.nn.Module.__call__ = original  # type: ignore[method-assign]

        torch.nn.Module.__call__ = called  # type: ignore[method-assign]
        self._undo = undo
        replaced.at_end(self.end)

    def end(self) -> None:
        """Watch no more."""
        self._undo()
