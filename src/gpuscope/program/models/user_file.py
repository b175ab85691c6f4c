"""Import the user's own file and find the function that builds the workload."""

from __future__ import annotations

import ast
import functools
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from types import ModuleType
from typing import Any

from gpuscope.document.text import Text
from gpuscope.errors import GpuscopeError, InputFileError, InvalidValueError, WorkloadError
from gpuscope.program.models.registry import Step
from gpuscope.program.models.settings import WorkloadOptions

__all__ = ["UserBuild", "functions_of", "is_script", "user_build"]

_LABELS = frozenset({"task", "device", "arguments", "allow_writes", "module", "replicas"})
"""Options that describe a workload, or what it runs on; a file's function need not take them."""


@dataclass(frozen=True, slots=True)
class UserBuild:
    """A function of a user's file that nobody has imported yet.

    Attributes:
        path, function, options: as `user_build` takes them.
    """

    path: Path
    function: str
    options: WorkloadOptions

    @property
    def target(self) -> str:
        """The file, to name in errors."""
        return str(self.path)

    @property
    def allow_writes(self) -> bool:
        """Whether what it writes is real."""
        return self.options.allow_writes

    @property
    def __name__(self) -> str:
        """The function's."""
        return self.function or "build"

    def load(self) -> Callable[[], Step]:
        """Import it; raises as `user_build`."""
        return user_build(self.path, self.function, self.options)

    def __call__(self) -> Step:
        """Import and call it."""
        return self.load()()


def user_build(path: Path, function: str, options: WorkloadOptions) -> Callable[[], Step]:
    """The function of that name in the file, given the options that it has arguments for.

    The file is imported with its own folder on `sys.path`, as `python file.py` would have it.

    Args:
        path: the user's Python file.
        function: name of the function; "" stands for `build`.
        options: what was set is passed as arguments of the same name; the batch also as
            `batch_size`.

    Raises:
        InputFileError: no such file, or it is not Python.
        WorkloadError: importing it raised, or it has no such function.
        InvalidValueError: an option was set that the function has no argument for.
    """
    functions = functions_of(path)
    name = function or "build"
    if name not in functions:
        module = _import(path)  # it may come from elsewhere: `from other import build`
        if not callable(getattr(module, name, None)):
            raise WorkloadError(
                Text("{path} has no function '{name}'.", path=path, name=name),
                Text("It has: {names}.", names=", ".join(functions))
                if functions
                else Text("It has no function."),
                Text(
                    "Type: {path}:{function}",
                    path=path,
                    function=functions[0] if functions else "build",
                ),
            )
    found = getattr(_import(path), name)
    return _with_options(found, path, name, options)


def functions_of(path: Path) -> list[str]:
    """Names of the functions defined at the file's top level, without running it.

    Raises:
        InputFileError: no such file, or it is not Python.
    """
    if not path.is_file():
        near = sorted(p.name for p in path.parent.glob("*.py")) if path.parent.is_dir() else []
        raise InputFileError(
            Text("There is no file {path}.", path=path),
            Text("Python files there: {near}.", near=", ".join(near[:8])) if near else "",
            Text("Give the path of a Python file and a function in it: file.py:build"),
        )
    return [node.name for node in _tree(path).body if isinstance(node, ast.FunctionDef)]


def is_script(path: Path) -> bool:
    """Whether a file is to be run as a whole: nothing at its top level is called `build`, and it
    does more there than to define and import.

    Raises:
        InputFileError: it is not Python.
    """
    functions = functions_of(path)
    body = _tree(path).body
    bound = {name for node in body for name in _bound(node)}
    acts = any(_acts(node) for node in body) or (not functions and any(map(_computes, body)))
    return "build" not in bound and acts


def _bound(node: ast.stmt) -> list[str]:
    """Names that a statement at the top level binds, where that is easily told."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []


def _acts(node: ast.stmt) -> bool:
    """Whether a statement at the top level runs something: a call, a loop, `if __name__ ...`."""
    if isinstance(node, ast.If):
        names = {each.id for each in ast.walk(node.test) if isinstance(each, ast.Name)}
        return "TYPE_CHECKING" not in names
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call)
    return isinstance(node, (ast.For, ast.While, ast.With))


def _computes(node: ast.stmt) -> bool:
    """Whether a statement computes something: what a file without functions does."""
    if not isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr)):
        return False
    return any(isinstance(each, (ast.Call, ast.BinOp)) for each in ast.walk(node))


def _tree(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes(), filename=str(path))
    except (SyntaxError, ValueError) as error:
        line = Text("")
        if isinstance(error, SyntaxError) and error.lineno:
            line = Text(" (line {line})", line=error.lineno)
        raise InputFileError(
            Text("{path} is not valid Python{line}.", path=path, line=line),
            str(error),
            Text("Correct it and try again."),
        ) from error


def _import(path: Path) -> ModuleType:
    full = path.resolve()
    name = full.stem
    loaded = sys.modules.get(name)
    if loaded is not None and getattr(loaded, "__file__", None) == str(full):
        return loaded
    if loaded is not None:  # a file named like a module that is in use, such as "random.py"
        name = f"gpuscope_workload_{full.stem}"
    spec = importlib.util.spec_from_file_location(name, full)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    if str(full.parent) not in sys.path:
        sys.path.insert(0, str(full.parent))
    sys.modules[name] = module
    try:
        with _triton(full):
            spec.loader.exec_module(module)
    except (KeyboardInterrupt, GpuscopeError):
        sys.modules.pop(name, None)
        raise
    except BaseException as error:
        sys.modules.pop(name, None)
        raise _import_error(path, full, error) from error
    return module


def _triton(path: Path) -> AbstractContextManager[None]:
    """Where Triton is not installed, a stand-in for it while a file that names it is imported."""
    if b"triton" not in path.read_bytes() or importlib.util.find_spec("triton") is not None:
        return nullcontext()
    from gpuscope.program.capture.triton_stand_in import standing_in

    return standing_in()


def _import_error(path: Path, full: Path, error: BaseException) -> WorkloadError:
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(full)]
    place = Text(" (line {line})", line=lines[-1]) if lines else Text("")
    what = Text(
        "Importing {path} raised {error}{place}.",
        path=path,
        error=type(error).__name__,
        place=place,
    )
    why: str = str(error).strip().split("\n")[0]
    if isinstance(error, ModuleNotFoundError) and error.name:
        return WorkloadError(
            what, why, Text("Install the package '{name}', or correct its name.", name=error.name)
        )
    if isinstance(error, SystemExit):
        why = Text("The file ends the program when it is imported.")
        return WorkloadError(what, why, Text('Put the main part under: if __name__ == "__main__":'))
    return WorkloadError(what, why, Text("Make it run by itself first: python {path}", path=path))


def _with_options(
    function: Any, path: Path, name: str, options: WorkloadOptions
) -> Callable[[], Step]:
    asked = {
        f.name: getattr(options, f.name)
        for f in fields(options)
        if getattr(options, f.name) not in (None, f.default)
    }
    parameters = inspect.signature(function).parameters
    if "batch_size" in parameters and "batch" not in parameters and "batch" in asked:
        asked["batch_size"] = asked.pop("batch")
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    passed = {key: value for key, value in asked.items() if takes_any or key in parameters}
    for key in asked:
        if key not in passed and key not in _LABELS:
            raise InvalidValueError(
                Text("{name}() in {path} has no argument '{key}'.", name=name, path=path, key=key),
                Text("Options of a file's workload are passed to its function."),
                Text("Leave out {key}, or write: def {name}({key}=...):", key=key, name=name),
            )
    for parameter in parameters.values():
        needed = parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_KEYWORD,
            parameter.VAR_POSITIONAL,
        )
        if needed and parameter.name not in passed:
            raise WorkloadError(
                Text(
                    "{name}() in {path} needs the argument '{parameter}'.",
                    name=name,
                    path=path,
                    parameter=parameter.name,
                ),
                Text("gpuscope calls it without arguments."),
                Text(
                    "Give it a default: def {name}({parameter}=...):",
                    name=name,
                    parameter=parameter.name,
                ),
            )
    if not passed:
        return function  # type: ignore[no-any-return]
    bound = functools.partial(function, **passed)
    functools.update_wrapper(bound, function)
    return bound
