"""A stand-in for Triton where it is not installed: enough to define kernels and to launch them.

Its names are answered as they are asked for: what is decorated with `jit` can be launched, what
`autotune` and `heuristics` say is kept, sizes are reckoned (`cdiv`, `next_power_of_2`), and
anything else (types, functions, options) is an object that takes any use.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch._library.triton as _ops

__all__ = ["StandIn", "standing_in"]

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
        self._looks_for_kernels: Any = None

    def begin(self) -> None:
        """Answer from now on; kernels of earlier stand-ins are told of, too."""
        _Kernel.launched = self._launched
        self.enter()

    def enter(self) -> None:
        """Answer imports; PyTorch need not look for kernels in the source of `triton_op`s."""
        sys.meta_path.append(self)
        self._looks_for_kernels = getattr(_ops, "get_inner_triton_kernels", None)
        if self._looks_for_kernels is not None:
            _ops.get_inner_triton_kernels = _no_kernels

    def end(self) -> None:
        """Answer no more, and forget what was imported."""
        _Kernel.launched = None
        self.leave()

    def leave(self) -> None:
        """Answer no more imports."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        if self._looks_for_kernels is not None:
            _ops.get_inner_triton_kernels = self._looks_for_kernels
            self._looks_for_kernels = None
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


@contextmanager
def standing_in() -> Iterator[None]:
    """Let code import Triton meanwhile; what it defines is launched under a capture only."""
    stand_in = StandIn(lambda *_: None)
    stand_in.enter()
    try:
        yield
    finally:
        stand_in.leave()


def _no_kernels(fn: Callable[..., Any]) -> list[object]:
    """What PyTorch finds in the source of an operator where there is no Triton."""
    return []


_VERSION = "3.6.0"
"""What libraries are told that ask (mamba_ssm does): PyTorch 2.11's own."""


class _Module(types.ModuleType):
    """Any name is found in it."""

    def __getattr__(self, name: str) -> Any:
        if name == "__version__" and self.__name__ == "triton":
            return _VERSION
        if name.startswith("__"):
            raise AttributeError(name)
        if name in _KNOWN:
            return _KNOWN[name]
        return _timing() if name in _TIMING else _Anything(f"{self.__name__}.{name}")


class _Anything:
    """Something that takes any use, and stays what it is."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _timing() if name in _TIMING else _Anything(f"{self._name}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self

    def __getitem__(self, key: Any) -> Any:
        return self

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (object,)

    def __repr__(self) -> str:
        return self._name


class _Kernel:
    """A kernel that can be launched: `kernel[grid](...)`; so can what decorates one.

    Args:
        fn: the function, or the kernel below a decorator.
        decorated: what the decorator says: `configs`, or `values`.
    """

    launched: Launched | None = None

    def __init__(self, fn: Any, **decorated: Any) -> None:
        self.fn = fn
        self.__name__ = getattr(fn, "__name__", "kernel")
        self.__dict__.update(decorated)

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return lambda *args, **kwargs: self(*args, grid=grid, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        if _Kernel.launched is None:
            raise ModuleNotFoundError("No module named 'triton'", name="triton")
        _Kernel.launched(self, args, kwargs)

    run = __call__

    @property
    def best_config(self) -> Config:
        """What code reads that needs the block size of a launch: the first of those to choose from.

        Which is the quickest is known when the launch is costed.

        Raises:
            AttributeError: the kernel is not tuned.
        """
        kernel: Any = self
        while isinstance(kernel, _Kernel):
            configs: list[Config] = vars(kernel).get("configs") or []
            if configs:
                return configs[0]
            kernel = kernel.fn
        raise AttributeError("best_config")


class Config:
    """A configuration of an autotuner."""

    def __init__(self, kwargs: Any = None, **options: Any) -> None:
        self.kwargs = dict(kwargs or {})
        self.__dict__.update({"num_warps": 4, "num_stages": 3, **options})

    def __repr__(self) -> str:
        return f"Config({vars(self)})"


class TensorDescriptor:
    """A descriptor made by the host, with the tensor that it describes."""

    def __init__(
        self,
        base: Any = None,
        shape: Any = (),
        strides: Any = (),
        block_shape: Any = (),
        *_: Any,
        **__: Any,
    ) -> None:
        self.base, self.block_shape = base, list(block_shape)
        self.shape, self.strides = list(shape), list(strides)

    @classmethod
    def from_tensor(cls, tensor: Any, block_shape: Any, *_: Any) -> TensorDescriptor:
        """Of a whole tensor."""
        return cls(tensor, tensor.shape, tensor.stride(), block_shape)


class constexpr:  # noqa: N801 (Triton's name)
    """A constant is itself; as an annotation, the mark of one."""

    def __new__(cls, value: Any = None) -> Any:
        return value


def _jit(fn: Any = None, **options: Any) -> Any:
    return _Kernel(fn) if fn is not None else _Kernel


def _autotune(configs: Any = (), *_: Any, **__: Any) -> Callable[[Any], Any]:
    return lambda kernel: _Kernel(kernel, configs=list(configs))


def _heuristics(values: Any = None, *_: Any, **__: Any) -> Callable[[Any], Any]:
    return lambda kernel: _Kernel(kernel, values=dict(values or {}))


def _cdiv(a: int, b: int) -> int:
    return -(-a // b)


def _next_power_of_2(n: int) -> int:
    return 1 << (max(1, int(n)) - 1).bit_length()


_KNOWN: dict[str, Any] = {
    "jit": _jit,
    "autotune": _autotune,
    "heuristics": _heuristics,
    "Config": Config,
    "TensorDescriptor": TensorDescriptor,
    "constexpr": constexpr,
    "cdiv": _cdiv,
    "next_power_of_2": _next_power_of_2,
    "JITFunction": _Kernel,
}


_TIMING = ("do_bench", "do_bench_cudagraph")


def _timing() -> Any:
    from gpuscope.program.capture import triton_bench

    return triton_bench.do_bench


def _asked_by_itself() -> bool:
    """Whether a library asks that knows what to do without Triton."""
    frame = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if "importlib" not in file and not file.startswith("<frozen"):
            return any(part in file.replace("\\", "/") for part in _ASKS_FOR_ITSELF)
        frame = frame.f_back  # type: ignore[assignment]
    return False
