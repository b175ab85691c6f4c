"""Calls of single modules, taken over and given back in any order.

Python looks `__call__` up in the class, so the class is what asks whether a module's call was taken
over. It asks as long as anybody has taken one; who gives theirs back first does not matter.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

__all__ = ["AskedCalls", "taken_over"]

_CLASS = "__gpuscope_class__"

Call = Callable[..., Any]
Wrap = Callable[[Call], Call]


class AskedCalls:
    """Calls of modules that one owner has taken over, until `give_back`."""

    def __init__(self) -> None:
        self._calls: dict[int, Call] = {}
        self._classes: list[_Class] = []

    def take(self, module: Any, wrap: Wrap) -> None:
        """Have `wrap(call)` called where the module is called; wraps of one module add up, the
        later ones outside."""
        asking = _asking(type(module))
        if all(asking is not held for held in self._classes):
            asking.layers.append(self._calls)
            self._classes.append(asking)
        call = self._calls.get(id(module)) or functools.partial(asking.below, self._calls, module)
        self._calls[id(module)] = wrap(call)

    def give_back(self) -> None:
        """Modules are called again as they were, but for what others have taken over."""
        for asking in self._classes:
            asking.leave(self._calls)
        self._classes.clear()
        self._calls = {}


def taken_over(module: Any) -> bool:
    """Whether the module's class asks anybody what to call."""
    return hasattr(type(module).__call__, _CLASS)


class _Class:
    """A class that asks: what it called before, and who has taken over calls, the latest last."""

    def __init__(self, cls: type) -> None:
        self.cls = cls
        self.inherits = "__call__" not in vars(cls)
        self.original: Call = cls.__call__
        self.layers: list[dict[int, Call]] = []
        original, layers = self.original, self.layers

        @functools.wraps(original)
        def asked(this: Any, *args: Any, **kwargs: Any) -> Any:
            for layer in reversed(layers):
                ours = layer.get(id(this))
                if ours is not None:
                    return ours(*args, **kwargs)
            return original(this, *args, **kwargs)

        setattr(asked, _CLASS, self)
        self.asked = asked
        cls.__call__ = asked  # type: ignore[method-assign]

    def below(self, layer: dict[int, Call], this: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the module as those below a layer would have it."""
        place = next((i for i, held in enumerate(self.layers) if held is layer), 0)
        for held in reversed(self.layers[:place]):
            ours = held.get(id(this))
            if ours is not None:
                return ours(*args, **kwargs)
        return self.original(this, *args, **kwargs)

    def leave(self, layer: dict[int, Call]) -> None:
        self.layers[:] = [held for held in self.layers if held is not layer]
        if self.layers or vars(self.cls).get("__call__") is not self.asked:
            return
        if self.inherits:
            del self.cls.__call__
        else:
            self.cls.__call__ = self.original  # type: ignore[method-assign]


def _asking(cls: type) -> _Class:
    found = getattr(vars(cls).get("__call__"), _CLASS, None)
    return found if found is not None else _Class(cls)
