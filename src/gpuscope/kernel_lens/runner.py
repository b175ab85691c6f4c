"""Look at a launch: find the function, run it in a simulating process, return what it saw."""

from __future__ import annotations

import ast
import inspect
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from gpuscope import children
from gpuscope.document.text import Text, verbatim
from gpuscope.errors import InputFileError, InvalidValueError, MissingPackageError, WorkloadError
from gpuscope.kernel_lens.cuda_launch import asked
from gpuscope.kernel_lens.machine import Machine, machine_of
from gpuscope.kernel_lens.recorder import DEFAULT_LIMIT
from gpuscope.kernel_lens.types import Lens
from gpuscope.kernel_lens.worker import ENVIRONMENT, MARK, Answer, Failure, Request

_SIMULATORS = ("numba", "triton")
_PRINTED = 4000
"""Characters of what the code printed that are kept."""


def look(
    launch: str | Callable[[], object],
    on: str = "h200",
    *,
    limit: int = DEFAULT_LIMIT,
    grid: str | int | tuple[int, ...] | None = None,
    block: str | int | tuple[int, ...] | None = None,
    arguments: Mapping[str, object] | None = None,
    shared_bytes: int = 0,
) -> Lens:
    """Run a function that launches kernels on the CPU and record every memory access.

    The function takes no arguments, makes small data and launches Triton or Numba-CUDA kernels.
    It runs in a process of its own, in the libraries' interpreter or simulator.

    Args:
        launch: "file.py:function" (`launch` if no function is named), or a function defined at the
            top level of a file; or a kernel in CUDA C, "file.cu:kernel".
        on: the device whose warp, sectors and banks are counted.
        limit: lane accesses and line visits after which the run is stopped.
        grid, block: of a CUDA C kernel, one to three numbers each.
        arguments: of a CUDA C kernel by name: numbers; for pointers how many elements, and what
            fills them: 4096, "64x64", "4096:random" (or zeros, ones, range).
        shared_bytes: dynamic shared memory of a CUDA C kernel.

    Returns:
        What the warps did; `Lens.explanation()` shows it.

    Raises:
        InputFileError: no such file, or it is not Python.
        InvalidValueError: the limit is not positive, or the function stands in no file.
        MissingPackageError: Numba or Triton is needed and not installed.
        UnknownNameError: no such device.
        UnsupportedError: the device's memory rules are not known.
        WorkloadError: the code raised, launched nothing, or ended the process.
    """
    if limit < 1:
        raise InvalidValueError(Text("The limit must be positive, not {limit}.", limit=limit))
    if os.environ.get(MARK):
        raise WorkloadError(
            Text("The file looks at its own kernels while it is imported."),
            "",
            Text('Put that call under: if __name__ == "__main__":'),
        )
    machine = machine_of(on)
    cuda = None
    if isinstance(launch, str) and launch.rpartition(":")[0].endswith((".cu", ".cuh")):
        name, _, function = launch.rpartition(":")
        file = Path(name)
        cuda = asked(file, function, grid, block, arguments or {}, shared_bytes)
    elif isinstance(launch, str) and launch.endswith((".cu", ".cuh")):
        raise InvalidValueError(
            Text("Which kernel of {path}?", path=launch),
            "",
            Text("Type: {command}", command=f"gpuscope lens {launch}:kernel --grid 8 --block 128"),
        )
    elif grid is not None or block is not None or arguments or shared_bytes:
        raise InvalidValueError(
            Text("Grid, block and arguments are given for CUDA C alone."),
            Text("A function in Python makes its launch itself."),
        )
    else:
        file, function = _place(launch)
    answer, printed = _run(Request(str(file.resolve()), function, machine, limit, cuda))
    return _lens(answer, f"{file}:{function}", machine, limit, printed)


lens = look
"""The public name: `gpuscope.lens(...)`."""


def _place(launch: str | Callable[[], object]) -> tuple[Path, str]:
    if not isinstance(launch, str):
        return _place_of_function(launch)
    name, colon, function = launch.rpartition(":")
    if not colon or not function.isidentifier():
        name, function = launch, ""
    path = Path(name)
    functions = _functions(path)
    function = function or "launch"
    if function not in functions:
        raise WorkloadError(
            Text("{path} has no function '{function}'.", path=path, function=function),
            Text("It has: {functions}.", functions=", ".join(functions))
            if functions
            else Text("It has no function."),
            Text("Write one that makes small data and launches the kernel: def launch(): ..."),
        )
    return path, function


def _place_of_function(launch: Callable[[], object]) -> tuple[Path, str]:
    name = getattr(launch, "__qualname__", "")
    try:
        file = inspect.getsourcefile(launch)
    except TypeError:
        file = None
    if file is None or not Path(file).is_file() or not name.isidentifier():
        raise InvalidValueError(
            Text("The lens cannot start {callable} by itself.", callable=repr(name or launch)),
            Text(
                "It runs the function in a new process, so it must stand at the top level of a "
                "file."
            ),
            Text('Save it in a file and call gs.lens("file.py:launch").'),
        )
    return Path(file), name


def _functions(path: Path) -> list[str]:
    if not path.is_file():
        raise InputFileError(
            Text("There is no file {path}.", path=path),
            "",
            Text("Give a Python file and a function: file.py:launch"),
        )
    try:
        tree = ast.parse(path.read_bytes(), filename=str(path))
    except (SyntaxError, ValueError) as error:
        raise InputFileError(
            Text("{path} is not valid Python.", path=path),
            str(error),
            Text("Correct it and try again."),
        ) from error
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            names += [alias.asname or alias.name for alias in node.names]
    return names


def _run(request: Request) -> tuple[Answer, str]:
    with tempfile.TemporaryDirectory(prefix="gpuscope-lens-") as folder:
        asked, given = Path(folder) / "request.json", Path(folder) / "result.json"
        asked.write_bytes(msgspec.json.encode(request))
        done = subprocess.run(
            children.python("gpuscope.kernel_lens.worker", str(asked), str(given)),
            env={**children.environment(), **ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        if not given.is_file():
            raise _ended(request, done.returncode, done.stdout)
        return msgspec.json.decode(given.read_bytes(), type=Answer), done.stdout[-_PRINTED:]


def _ended(request: Request, code: int, output: str) -> WorkloadError:
    """What to say where the process left no answer."""
    how = Text("exit code {code}", code=code)
    if code < 0:
        how = verbatim(signal.Signals(-code).name)
    last = [line for line in output.splitlines() if line.strip()][-1:]
    return WorkloadError(
        Text(
            "{path}:{function} ended the process ({how}).",
            path=Path(request.file).name,
            function=request.function,
            how=how,
        ),
        last[0].strip() if last else "",
        Text("Make it run by itself first, with {settings} set.", settings=_settings()),
    )


def _settings() -> Text:
    return verbatim(" ".join(f"{k}={v}" for k, v in ENVIRONMENT.items() if k != MARK))


def _lens(answer: Answer, name: str, machine: Machine, limit: int, printed: str) -> Lens:
    if answer.failure is not None:
        raise _error(answer.failure, name)
    if not answer.launches:
        raise WorkloadError(
            Text("{name} launched no kernel.", name=name),
            Text("It ran to its end, and neither Triton nor Numba-CUDA was asked to run a kernel."),
            Text(
                "Let it call one: kernel[blocks, threads](...) in Numba, kernel[grid](...) in "
                "Triton."
            ),
        )
    return Lens(name, machine, answer.launches, answer.complete, limit, answer.seen, printed)


def _error(failure: Failure, name: str) -> Exception:
    if failure.package in _SIMULATORS:
        return MissingPackageError(failure.package, Text("Running {name}", name=name), "lens")
    if failure.stage == "watch":
        return WorkloadError(
            Text("The lens cannot watch the installed version of Triton or Numba."),
            f"{failure.kind}: {failure.text}",
            Text("Type: pip install --upgrade triton numba"),
        )
    values = {"name": name, "error": failure.kind}
    if failure.stage == "import":
        what = Text(
            "Importing the file of {name} raised {error}{where}.", where=_where(failure), **values
        )
    else:
        what = Text("Running {name} raised {error}{where}.", where=_where(failure), **values)
    return WorkloadError(what, failure.text, _advice(failure))


def _where(failure: Failure) -> Text:
    if failure.line is None:
        return verbatim("")
    return Text(" at line {line} of {file}", line=failure.line, file=Path(failure.file).name)


def _advice(failure: Failure) -> Text:
    if failure.package:
        return Text(
            "Install the package '{package}', or correct its name.", package=failure.package
        )
    if "FakeCUDAModule" in failure.text:
        return Text(
            "Numba's simulator does not know this function: leave it out of what you look at."
        )
    if failure.kind == "IndexError":
        return Text(
            "On a device this reads or writes outside the array: add a guard, or a larger array."
        )
    if failure.kind == "OutsideError":
        return Text(
            "On a device this is a fault or silent damage: mask it, or pass a larger tensor."
        )
    return Text("Make it run by itself first, with {settings} set.", settings=_settings())
