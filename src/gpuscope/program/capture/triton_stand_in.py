"""A stand-in for Triton where it is not installed: enough to define kernels and to launch them.

Its names are answered as they are asked for: what is decorated with `jit` can be launched, other
decorators give the kernel back, sizes are reckoned (`cdiv`, `next_power_of_2`), and anything else
(types, annotations, options) is an object that takes any use. Kernels' bodies never run.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["StandIn"]

_ASKS_FOR_ITSELF = ("/torch/", "/transformers/")
"""They do without Triton where there is none, and must not be told otherwise."""

Launched = Callable[[Any, Any, Any], None]


class StandIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers imports of `triton` and what is below it, from `begin` to `end`.

    Args:
        launched: given each kernel that is launched, its arguments and its keywords.
    """

    def __init__(self, launched: Launched) -> None:
        self._launched = launched

    def begin(self) -> None:
        """Answer from now on; kernels of earlier stand-ins are told of, too."""
        _Kernel.launched = self._launched
        sys.meta_path.append(self)

    def end(self) -> None:
        """Answer no more, and forget what was imported."""
        _Kernel.launched = None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for name in [n for n, module in sys.modules.items() if isinstance(module, _Module)]:
            del sys.modules[name]

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A module for every name below `triton`."""
        if fullname.partition(".")[0] != "triton" or _asked_by_itself():
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """The stand-in."""
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing to run."""


class _Module(types.ModuleType):
    """Any name is found in it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in _KNOWN:
            return _KNOWN[name]
        return _Anything(f"{self.__name__}.{name}")


class _Anything:
    """Something that takes any use, and stays what it is."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything(f"{self._name}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self

    def __getitem__(self, key: Any) -> Any:
        return self

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (object,)

    def __repr__(self) -> str:
        return self._name


class _Kernel:
    """A kernel that can be launched: `kernel[grid](...)`; a decorated one is launched as it is."""

    launched: Launched | None = None

    def __init__(self, fn: Any) -> None:
        self.fn = fn
        self.__name__ = getattr(fn, "__name__", "kernel")

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        if _Kernel.launched is not None:
            _Kernel.launched(self, args, kwargs)

    run = __call__


def _jit(fn: Any = None, **options: Any) -> Any:
    return _Kernel(fn) if fn is not None else _Kernel


def _given_back(*args: Any, **options: Any) -> Callable[[Any], Any]:
    return lambda kernel: kernel


def _cdiv(a: int, b: int) -> int:
    return -(-a // b)


def _next_power_of_2(n: int) -> int:
    return 1 << (max(1, int(n)) - 1).bit_length()


_KNOWN: dict[str, Any] = {
    "jit": _jit,
    "autotune": _given_back,
    "heuristics": _given_back,
    "cdiv": _cdiv,
    "next_power_of_2": _next_power_of_2,
    "JITFunction": _Kernel,
}


def _asked_by_itself() -> bool:
    """Whether a library asks that knows what to do without Triton."""
    frame = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if "importlib" not in file and not file.startswith("<frozen"):
            return any(part in file.replace("\\", "/") for part in _ASKS_FOR_ITSELF)
        frame = frame.f_back  # type: ignore[assignment]
    return False
