"""The process in which the kernels run: `python -m gpuscope.kernel_lens.worker REQUEST RESULT`.

Numba and Triton read at import whether to simulate, so their kernels run in a process of their own,
started with the environment that says so. It reads one JSON document and writes one.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gpuscope.kernel_lens.cuda_launch import CudaLaunch, launcher
from gpuscope.kernel_lens.machine import Machine
from gpuscope.kernel_lens.recorder import LimitReached, Recorder
from gpuscope.kernel_lens.types import Launch
from gpuscope.kernel_lens.visits import is_users

MARK = "GPUSCOPE_LENS_WORKER"
"""Set in this process, so that a file that looks at itself on import does not start another."""

ENVIRONMENT = {"NUMBA_ENABLE_CUDASIM": "1", "TRITON_INTERPRET": "1", MARK: "1"}


@dataclass(frozen=True, slots=True)
class Request:
    """What to run.

    Attributes:
        file, function: where the launch stands.
        machine: whose rules apply.
        limit: lane accesses and line visits allowed.
        cuda: of a `.cu` file, how its kernel is launched.
    """

    file: str
    function: str
    machine: Machine
    limit: int
    cuda: CudaLaunch | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no result.

    Attributes:
        stage: "import", "watch" (this version of the library is not known), or "launch".
        kind: the exception's class.
        text: what it says, one line.
        file, line: the user's line that raised it; "" and None if there is none.
        package: a package that is not installed; "" if that is not the reason.
    """

    stage: str
    kind: str
    text: str
    file: str
    line: int | None
    package: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of it.

    Attributes:
        launches: as far as they were recorded.
        complete: False where the limit was reached.
        seen: lane accesses and line visits.
        failure: what the user's code raised; None if it ended well.
    """

    launches: tuple[Launch, ...]
    complete: bool
    seen: int
    failure: Failure | None


def run(request: Request) -> Answer:
    """Import the file, run its function under the lens, and summarise."""
    recorder = Recorder(request.machine, request.limit)
    stage, complete, failure = "import", True, None
    try:
        if request.cuda is not None:
            launch = launcher(Path(request.file), request.function, request.cuda)
        else:
            launch = _function(Path(request.file), request.function)
        stage = "watch"
        _install(recorder)
        stage = "launch"
        launch()
    except LimitReached:
        complete = False
    except (Exception, SystemExit) as error:
        complete = not _is_limit(error)
        failure = _failure(stage, error) if complete else None
    return Answer(tuple(recorder.launches), complete, recorder.seen, failure)


def _function(file: Path, name: str) -> Callable[[], object]:
    sys.path.insert(0, str(file.parent))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(file.stem, module)
    spec.loader.exec_module(module)
    return getattr(module, name)  # type: ignore[no-any-return]


def _install(recorder: Recorder) -> None:
    """Watch whichever simulators the file uses; both, where it has imported neither yet."""
    used = [name for name in ("numba", "triton") if name in sys.modules]
    for name in used or ("numba", "triton"):
        if importlib.util.find_spec(name) is None:
            continue
        if name == "numba":
            from gpuscope.kernel_lens.numba_simulator import install as watch
        else:
            from gpuscope.kernel_lens.triton_interpreter import install as watch
        watch(recorder)


def _is_limit(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, LimitReached):
            return True
        error = error.__cause__ or error.__context__
    return False


def _wrapping() -> tuple[type[BaseException], ...]:
    """The class that Triton's interpreter wraps what a kernel raises in, where it is loaded."""
    errors = sys.modules.get("triton.runtime.errors")
    found = getattr(errors, "InterpreterError", None)
    return () if found is None else (found,)


def _failure(stage: str, error: BaseException) -> Failure:
    root = error
    while isinstance(root, _wrapping()) and root.__cause__ is not None:
        root = root.__cause__
    frames = traceback.extract_tb(root.__traceback__)
    own = [frame for frame in frames if is_users(frame.filename)]
    package = ""
    if isinstance(root, ModuleNotFoundError) and root.name:
        package = root.name.partition(".")[0]
    text = " ".join(str(root).split())
    place = own[-1] if own else None
    return Failure(
        stage,
        type(root).__name__,
        text[:300],
        place.filename if place else "",
        place.lineno if place else None,
        package,
    )


def main(arguments: list[str]) -> None:
    """Read the request, write the answer."""
    request = msgspec.json.decode(Path(arguments[0]).read_bytes(), type=Request)
    answer = run(request)
    result = Path(arguments[1])
    part = result.with_suffix(".part")
    part.write_bytes(msgspec.json.encode(answer))
    part.replace(result)


if __name__ == "__main__":
    main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # threads of the user's code do not keep the answer waiting
