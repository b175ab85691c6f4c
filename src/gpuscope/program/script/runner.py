"""Run a script or a module in this process, as `python` would, and leave its behaviour alone.

What `python file.py` sets is set: `__main__` (which stays in place, so that pickling, spawned
workers and exit handlers find it), `sys.argv`, `sys.path[0]`, `__file__`. An exception ends in the
traceback that Python prints, without our frames; `sys.exit` gives its code; an interrupt ends the
process by its signal.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import io
import os
import runpy
import signal
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from gpuscope.document.text import Text
from gpuscope.errors import InputFileError

_OURS = str(Path(__file__).resolve())


@dataclass(frozen=True, slots=True)
class Program:
    """What to run.

    Attributes:
        target: path of a script, or the name of a module.
        arguments: what it finds in `sys.argv[1:]`.
        module: `target` is a module (`python -m`).
    """

    target: str
    arguments: tuple[str, ...] = ()
    module: bool = False

    @property
    def name(self) -> str:
        """What to call a run of it."""
        return self.target if self.module else Path(self.target).name


def check(program: Program) -> None:
    """Refuse what cannot be run, before anything else is done.

    Raises:
        InputFileError: no such script or module, or not Python.
    """
    if program.module:
        found = _found(program)
        if found is None and not _in_folder(program.target):
            raise InputFileError(
                Text("There is no module '{target}'.", target=program.target),
                "",
                Text("Check its name: python -m NAME"),
            )
        return
    path = Path(program.target)
    if not path.is_file():
        raise InputFileError(
            Text("There is no file {path}.", path=path),
            "",
            Text("Type: gpuscope profile [options] script.py [args]"),
        )
    try:
        compile(path.read_bytes(), str(path), "exec")
    except (SyntaxError, ValueError) as error:
        line = f" (line {error.lineno})" if isinstance(error, SyntaxError) else ""
        raise InputFileError(
            Text("{path} is not valid Python{line}.", path=path, line=line), str(error)
        ) from error


def source_of(program: Program) -> Path:
    """The file that is run; of a package its `__main__`."""
    if not program.module:
        return Path(program.target)
    found = _found(program)
    if found is not None and found.submodule_search_locations:
        return Path(next(iter(found.submodule_search_locations))) / "__main__.py"
    if found is not None and found.origin:
        return Path(found.origin)
    base = Path.cwd().joinpath(*program.target.split("."))
    return base.with_suffix(".py") if base.with_suffix(".py").is_file() else base / "__main__.py"


def _found(program: Program) -> importlib.machinery.ModuleSpec | None:
    """The module's specification."""
    return _found_unimported(program.target) or _found_imported(program)


def _found_unimported(name: str) -> importlib.machinery.ModuleSpec | None:
    """By the folders alone: nothing of the user's runs before it is guarded."""
    first, *rest = name.split(".")
    try:
        spec = importlib.util.find_spec(first)
        for part in rest:
            if spec is None or spec.submodule_search_locations is None:
                return None
            within = list(spec.submodule_search_locations)
            spec = importlib.machinery.PathFinder.find_spec(f"{spec.name}.{part}", within)
    except (ImportError, ValueError, AttributeError):
        return None
    return spec


def _found_imported(program: Program) -> importlib.machinery.ModuleSpec | None:
    """Of a package that says itself where its modules are. What is above it is imported, and may
    look at the arguments already (`def parse(args=sys.argv[1:])`)."""
    before = sys.argv
    sys.argv = [program.target, *program.arguments]
    try:
        return importlib.util.find_spec(program.target)
    except (ImportError, ValueError, AttributeError):
        return None
    finally:
        sys.argv = before


def _in_folder(name: str) -> bool:
    base = Path.cwd().joinpath(*name.split("."))
    return base.with_suffix(".py").is_file() or (base / "__main__.py").is_file()


def run(program: Program) -> BaseException | None:
    """Run it to its end.

    Returns:
        What it raised (`SystemExit` and `KeyboardInterrupt` included); None if it ran through.
    """
    sys.argv = [program.target, *program.arguments]
    try:
        if program.module:
            sys.path[0:0] = [os.getcwd()]
            runpy.run_module(program.target, run_name="__main__", alter_sys=True)
        else:
            _run_script(Path(program.target))
    except BaseException as error:
        return error
    return None


def _run_script(path: Path) -> None:
    full = os.path.abspath(path)  # as Python itself has named the main file since 3.9
    main = types.ModuleType("__main__")
    main.__file__ = full
    main.__dict__["__builtins__"] = __builtins__
    main.__dict__["__cached__"] = None
    sys.path[0:0] = [str(path.resolve().parent)]
    sys.modules["__main__"] = main
    with io.open_code(full) as file:
        code = compile(file.read(), full, "exec")
    exec(code, main.__dict__)


def end_as(error: BaseException | None) -> None:
    """End this process as Python ends one that raised `error`; returns if there is none.

    Raises:
        SystemExit: with the program's own code, or 1 after its traceback was printed.
    """
    if error is None:
        return
    if isinstance(error, SystemExit):
        raise error
    error = error.with_traceback(own_part(error.__traceback__))
    sys.excepthook(type(error), error, error.__traceback__)
    if isinstance(error, KeyboardInterrupt):
        _flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    raise SystemExit(1)


def own_part(trace: TracebackType | None) -> TracebackType | None:
    """Return the traceback from the program's first own frame on."""
    at, first = trace, trace
    while at is not None:
        name = at.tb_frame.f_code.co_filename
        if name != _OURS and "runpy" not in name:
            break
        at = at.tb_next
        first = at if at is not None else first
    return first


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue


# -- torch -----------------------------------------------------------------------------------------


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function once a module has been imported, and only then."""

    def __init__(self, name: str, call: Callable[[], None]) -> None:
        self._name = name
        self._call = call
        self._busy = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find the module as anyone would, with a loader that calls back."""
        if fullname != self._name or self._busy:
            return None
        self._busy = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._busy = False
        if spec is None or spec.loader is None:
            return None
        sys.meta_path.remove(self)
        original, call = spec.loader.exec_module, self._call

        def exec_module(module: types.ModuleType) -> None:
            original(module)
            call()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def when_imported(name: str, call: Callable[[], None]) -> Callable[[], None]:
    """Call `call()` once the module is there: now, or right after its import.

    The program imports torch when it wants to, after it has set its environment variables.

    Returns:
        what to call in order to wait no longer.
    """
    if name in sys.modules:
        call()
        return lambda: None
    waiting = _AfterImport(name, call)
    sys.meta_path.insert(0, waiting)

    def cancel() -> None:
        if waiting in sys.meta_path:
            sys.meta_path.remove(waiting)

    return cancel
