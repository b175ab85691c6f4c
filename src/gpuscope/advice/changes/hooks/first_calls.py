"""Modules are noticed when they are called for the first time.

The call itself is watched, not by a hook: compiled code goes through hooks, and would have to know
what they do. What is compiled is called from outside, so that its model is noticed before. One
function stands in for `Module.__call__` as long as anybody watches, whoever ends first.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from gpuscope.advice.changes.hooks.replaced_names import Replaced
from gpuscope.program.capture.patches import here

__all__ = ["FirstCalls"]

_watching: list[FirstCalls] = []


class FirstCalls:
    """Tells of each module that is called and not known.

    Args:
        tell: is given the module before it runs.
    """

    def __init__(self, tell: Callable[[Any], None]) -> None:
        self._tell = tell
        self._captured = False
        self._known: weakref.WeakSet[Any] = weakref.WeakSet()

    def know(self, module: Any) -> None:
        """A module and all that it holds are known."""
        self._known.update(module.modules())

    def called(self, module: Any) -> None:
        """Tell of a module that is about to run, if it is not known."""
        if self._captured and not here():
            return  # another thread's, that has nothing to do with the code that is captured
        if module not in self._known:
            self._tell(module)

    def begin(self, replaced: Replaced) -> None:
        """Watch from now on, until `end` or the replacements are undone."""
        self._captured = here()
        _watching.append(self)
        _stand_in()
        replaced.at_end(self.end)

    def end(self) -> None:
        """Watch no more."""
        _watching[:] = [watch for watch in _watching if watch is not self]
        if not _watching:
            _step_aside()


def _stand_in() -> None:
    import torch

    original = torch.nn.Module.__call__
    if hasattr(original, "__gpuscope_watched__"):
        return
    is_compiling = torch.compiler.is_compiling

    @functools.wraps(original)
    def watched(this: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_compiling():
            for watch in tuple(_watching):
                watch.called(this)
        return original(this, *args, **kwargs)

    watched.__gpuscope_watched__ = original  # type: ignore[attr-defined]
    torch.nn.Module.__call__ = watched  # type: ignore[method-assign]


def _step_aside() -> None:
    import torch

    original = getattr(torch.nn.Module.__call__, "__gpuscope_watched__", None)
    if original is not None:
        torch.nn.Module.__call__ = original  # type: ignore[method-assign]
