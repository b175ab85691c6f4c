"""A launch of a kernel in a `.cu` file: arguments from the command line, arrays, the call."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from gpuscope.document.text import Text
from gpuscope.errors import InputFileError, InvalidValueError, MissingPackageError, WorkloadError
from gpuscope.kernel_lens.cuda_source import CudaError

USUAL_ELEMENTS = 1 << 16
"""Elements of an array whose size nobody says."""

_FILLS = ("zeros", "ones", "range", "random")
_MOST_THREADS = 1024
_MOST_ELEMENTS = 1 << 26


@dataclass(frozen=True, slots=True)
class CudaLaunch:
    """How a kernel of a `.cu` file is launched.

    Attributes:
        grid, block: (x, y, z).
        arguments: by parameter, as text: numbers; sizes of arrays ("4096", "64x64"), with what
            fills them ("4096:random": zeros, ones, range or random).
        shared_bytes: dynamic shared memory.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: dict[str, str]
    shared_bytes: int = 0


def asked(
    file: Path,
    kernel: str,
    grid: str | int | tuple[int, ...] | None,
    block: str | int | tuple[int, ...] | None,
    arguments: Mapping[str, object],
    shared_bytes: int,
) -> CudaLaunch:
    """Check what is asked of a `.cu` file.

    Raises:
        InputFileError: no such file, or it is not followed; says which line.
        InvalidValueError: a size or an argument is missing or wrong.
        WorkloadError: it has no such kernel.
        MissingPackageError: pycparser is not installed.
    """
    parameters = _parameters(file, kernel)
    shown = f"gpuscope lens {file}:{kernel}"
    sizes = []
    for name, given in (("grid", grid), ("block", block)):
        if given is None:
            raise InvalidValueError(
                Text("Say how {kernel} is launched: its {what}.", kernel=kernel, what=name),
                Text("A .cu file holds the kernel; blocks and threads come with the launch."),
                Text("Type: {command} --grid 8 --block 128", command=shown),
            )
        sizes.append(_sizes(name, given))
    if prod(sizes[1]) > _MOST_THREADS:
        raise InvalidValueError(Text("A block has at most {most} threads.", most=_MOST_THREADS))
    values = {str(name): str(value) for name, value in arguments.items()}
    for name in values:
        if name not in dict(parameters):
            raise InvalidValueError(
                Text("{kernel} has no argument '{name}'.", kernel=kernel, name=name),
                Text("It has: {names}.", names=", ".join(n for n, _ in parameters)),
            )
    for name, kind in parameters:
        if name not in values and not kind.endswith("*"):
            raise InvalidValueError(
                Text("{kernel} needs the argument '{name}'.", kernel=kernel, name=name),
                "",
                Text("Add: --arg {name}=1024", name=name),
            )
        if name in values:
            _value(name, kind, values[name])
    return CudaLaunch(sizes[0], sizes[1], values, shared_bytes)


def launcher(file: Path, kernel: str, launch: CudaLaunch) -> Callable[[], object]:
    """A function that launches the kernel in Numba's simulator with arrays of its own."""
    import numpy as np
    from numba import cuda

    from gpuscope.kernel_lens import cuda_helpers, functions, loops
    from gpuscope.kernel_lens.cuda_python import translated

    text = file.read_text(encoding="utf-8", errors="replace")
    module, parameters = translated(text, str(file))
    lines = text.split("\n")
    for made in module.body:
        assert isinstance(made, ast.FunctionDef)
        place = (str(file), made.name)
        loops.TRANSLATED[place] = loops.loops_in(made)
        functions.TRANSLATED[place] = _function_lines(lines[made.lineno - 1 :])
    names: dict[str, Any] = {"cuda": cuda, "_np": np, "_c": cuda_helpers}
    exec(compile(module, str(file), "exec"), names)
    given = [
        _made(kind, launch.arguments.get(name, str(USUAL_ELEMENTS)), name)
        for name, kind in parameters[kernel]
    ]
    function = cuda.jit(names[kernel])
    return lambda: function[launch.grid, launch.block, 0, launch.shared_bytes](*given)


def _function_lines(lines: list[str]) -> tuple[str, ...]:
    """A function's lines, from its first to the bracket that closes it."""
    depth = 0
    for count, line in enumerate(lines, 1):
        depth += line.count("{") - line.count("}")
        if depth <= 0 and "}" in line:
            return tuple(lines[:count])
    return tuple(lines)


def _parameters(file: Path, kernel: str) -> list[tuple[str, str]]:
    if not file.is_file():
        raise InputFileError(Text("There is no file {path}.", path=file))
    try:
        from gpuscope.kernel_lens.cuda_python import translated
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            "pycparser", Text("Reading {name}", name=str(file)), "lens"
        ) from error
    try:
        _, found = translated(file.read_text(encoding="utf-8", errors="replace"), str(file))
    except CudaError as error:
        raise InputFileError(
            Text("Line {line} of {path} is not followed.", line=error.line, path=file.name),
            Text("{what}.", what=error.text),
            Text("The lens takes the C of CUDA without templates, references and classes."),
        ) from error
    if kernel not in found:
        raise WorkloadError(
            Text("{path} has no kernel '{name}'.", path=file, name=kernel),
            Text("It has: {names}.", names=", ".join(found))
            if found
            else Text("It has no function for the device."),
            Text("Type: {command}", command=f"gpuscope lens {file}:{next(iter(found), 'kernel')}"),
        )
    return found[kernel]


def _sizes(what: str, given: str | int | tuple[int, ...]) -> tuple[int, int, int]:
    if isinstance(given, int):
        given = (given,)
    try:
        parts = given.replace("x", ",").split(",") if isinstance(given, str) else given
        sizes = [int(part) for part in parts]
    except ValueError:
        sizes = []
    if not 1 <= len(sizes) <= 3 or min(sizes) < 1:
        raise InvalidValueError(
            Text("The {what} is one to three numbers, not {value}.", what=what, value=str(given)),
            "",
            Text("Type: --{what} 16,16", what=what),
        )
    x, y, z = [*sizes, 1, 1][:3]
    return x, y, z


def _value(name: str, kind: str, text: str) -> Any:
    """A number; of an array its number of elements and what fills it.

    Raises:
        InvalidValueError: it is none.
    """
    try:
        if not kind.endswith("*"):
            return float(text) if kind.startswith("float") else int(text)
        size, _, fill = text.partition(":")
        count = prod(int(part) for part in size.split("x"))
        if 0 < count <= _MOST_ELEMENTS and fill in ("", *_FILLS):
            return count, fill or "zeros"
    except ValueError:
        pass
    kind = "4096, 64x64, 4096:random" if kind.endswith("*") else "1024"
    raise InvalidValueError(
        Text("The argument {name}={value} is not understood.", name=name, value=text),
        Text("It is of the sort: {sort}", sort=kind),
    )


def _made(kind: str, text: str, name: str) -> Any:
    import numpy as np

    found = _value(name, kind, text)
    if not kind.endswith("*"):
        return found
    count, fill = found
    dtype = np.dtype(kind[:-1])
    if fill == "random":
        return np.random.default_rng(0).integers(0, 256, count).astype(dtype)
    if fill == "range":
        return np.arange(count).astype(dtype)
    return np.full(count, int(fill == "ones"), dtype)
