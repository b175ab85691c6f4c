"""How a Triton kernel is launched: its arguments by name, what decorates it, its configurations."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch

from gpuscope.document.text import Text
from gpuscope.program.capture.calls import dtype_name
from gpuscope.program.triton_blocks.launches import DescriptorArgument, Launch, TensorArgument
from gpuscope.program.triton_blocks.tally import Argument
from gpuscope.program.triton_blocks.values import NotFollowedError, dtype_named

_WARPS, _STAGES = 4, 3
"""Triton's own where nobody says (third_party/nvidia/backend/compiler.py, CUDAOptions)."""

_KNOWN_VALUES = 4096
"""Whole numbers of a tensor that are looked at."""


@dataclass(frozen=True)
class Choice:
    """One way to launch a kernel.

    Attributes:
        config: of the autotuner; None without one.
        heuristics: functions of the arguments, by parameter.
        options: keywords of the launch.
    """

    config: Any
    heuristics: dict[str, Any]
    options: dict[str, Any]

    def option(self, name: str, usual: int) -> int:
        """`num_warps` or `num_stages`: the launch's, else the configuration's, else Triton's."""
        for value in (self.options.get(name), getattr(self.config, name, None)):
            if isinstance(value, int):
                return value
        return usual


def choices(kernel: Any) -> tuple[list[Any], dict[str, Any]]:
    """The autotuner's configurations ([None] without one) and the heuristics around a kernel."""
    configs: list[Any] = [None]
    heuristics: dict[str, Any] = {}
    while hasattr(kernel, "fn"):
        if isinstance(getattr(kernel, "configs", None), list):
            configs = kernel.configs or [None]
        if isinstance(getattr(kernel, "values", None), dict):
            heuristics |= kernel.values
        kernel = kernel.fn
    return configs, heuristics


def bound(function: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """Arguments by parameter, defaults included; what only the launch takes is left out."""
    parameters = inspect.signature(function).parameters
    given = {name: p.default for name, p in parameters.items() if p.default is not p.empty}
    given |= dict(zip(parameters, args, strict=False))
    return given | {name: value for name, value in kwargs.items() if name in parameters}


def argument(recorder: Any, tensor: torch.Tensor) -> Argument:
    """A tensor as a followed kernel sees it."""
    dtype = dtype_named(dtype_name(tensor.dtype))
    if dtype is None:
        raise NotFollowedError(Text("Its type {dtype} is not known.", dtype=str(tensor.dtype)))
    pairs = list(zip(tensor.shape, tensor.stride(), strict=True))
    elements = 0 if 0 in tensor.shape else 1 + sum((n - 1) * step for n, step in pairs)
    values = None
    if dtype.kind == "int" and elements <= _KNOWN_VALUES and tensor.is_contiguous():
        real = recorder.host_values.read(tensor)
        values = None if real is None else real.reshape(-1).numpy()
    return Argument(dtype, elements * max(1, dtype.bits // 8), values)


def launch(
    function: Any,
    given: dict[str, Any],
    choice: Choice,
    tensors: list[torch.Tensor],
    arguments: tuple[Argument, ...],
    samples: int,
) -> Launch:
    """The launch with one configuration."""
    values = {**given, **getattr(choice.config, "kwargs", {})}
    for name, compute in choice.heuristics.items():
        values[name] = compute({**values, **_options(choice)})
    parameters = inspect.signature(function).parameters
    missing = [name for name in parameters if name not in values]
    if missing:
        raise NotFollowedError(Text("It is not given {name}.", name=missing[0]))
    grid = choice.options.get("grid", (1,))
    grid = grid({**values, **_options(choice)}) if callable(grid) else grid
    sizes = [int(n) for n in (grid if isinstance(grid, (tuple, list)) else (grid,))]
    x, y, z = [*sizes, 1, 1, 1][:3]
    numbers = {id(tensor): at for at, tensor in enumerate(tensors)}
    return Launch(
        function,
        {name: _value(values[name], numbers) for name in parameters},
        frozenset(name for name, p in parameters.items() if _constant(p)),
        arguments,
        (x, y, z),
        choice.option("num_warps", _WARPS),
        choice.option("num_stages", _STAGES),
        samples,
    )


def key(launched: Launch) -> Any:
    """What equal launches have in common."""
    tensors = tuple(
        (a.dtype.name, a.nbytes, None if a.values is None else a.values.tobytes())
        for a in launched.tensors
    )
    values = tuple((n, type(v).__name__, repr(v)) for n, v in launched.arguments.items())
    sizes = (launched.grid, launched.warps, launched.stages, launched.samples)
    return launched.function, values, tensors, sizes


def _options(choice: Choice) -> dict[str, int]:
    return {"num_warps": choice.option("num_warps", _WARPS),
            "num_stages": choice.option("num_stages", _STAGES)}  # fmt: skip


def _constant(parameter: inspect.Parameter) -> bool:
    """Whether a parameter is `tl.constexpr`, as an object or as text."""
    kind = parameter.annotation
    named = kind if isinstance(kind, str) else getattr(kind, "__name__", "")
    return "constexpr" in str(named)


def _value(value: Any, numbers: dict[int, int]) -> Any:
    if isinstance(value, torch.Tensor):
        return TensorArgument(numbers[id(value)])
    base = getattr(value, "base", None)
    if isinstance(base, torch.Tensor):
        if not hasattr(value, "block_shape"):
            return TensorArgument(numbers[id(base)])
        sizes = (tuple(map(int, part)) for part in (value.shape, value.strides, value.block_shape))
        return DescriptorArgument(numbers[id(base)], *sizes)
    if isinstance(value, (tuple, list)):
        return tuple(_value(one, numbers) for one in value)
    return getattr(value, "value", value) if type(value).__name__ == "constexpr" else value
