"""What is to be optimized, said so that another process can find it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuscope.advice.results import Target
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, UnsupportedError, WorkloadError
from gpuscope.program.jax.workload import is_jax
from gpuscope.program.script import Script

if TYPE_CHECKING:
    from gpuscope.program.workload import WorkloadOptions

__all__ = ["Located", "locate"]

_ASK = "Put the function in a file and name it: file.py:build"


@dataclass(frozen=True, slots=True)
class Located:
    """A target that was found.

    Attributes:
        target: for other processes.
        file: that holds the code; None for built-in models.
        function: of the file; "" for a whole script and for built-in models.
    """

    target: Target
    file: Path | None
    function: str

    @property
    def short_name(self) -> str:
        """A name for a folder: "train-build", "gpt2"."""
        if self.file is None:
            return Path(self.target.name).stem or "workload"
        return f"{self.file.stem}-{self.function}" if self.function else self.file.stem


def locate(
    target: Callable[..., Any] | str,
    options: WorkloadOptions | None = None,
    arguments: Sequence[str] = (),
) -> Located:
    """Find what a target stands for, without running it.

    A Python file without a function's name is its `build` where it has one and no arguments are
    given, and a script otherwise.

    Args:
        target: a function at the top level of a file, `file.py:build`, a built-in model's name, a
            Hugging Face `config.json`, or a script.
        options: of the workload.
        arguments: of a script; those of the options by default.

    Raises:
        WorkloadError: the function cannot be found from another process.
        InputFileError, UnknownNameError: no such file or model.
        InvalidValueError: arguments for something that is no script.
        UnsupportedError: a ready-made job of several devices; an ONNX graph or a JAX step, which
            no change of code can be tried on.
    """
    given = _plain(options)
    if is_jax(target) or str(target).lower().endswith(".onnx"):
        name = str(target if isinstance(target, str) else getattr(target, "__name__", "step"))
        raise UnsupportedError(
            Text("Changes of code cannot be tried on {name}.", name=name),
            Text("They are written for PyTorch; what helps a graph or a JAX step is predicted."),
            Text("Type: gpuscope advise {name} --on h200", name=name),
        )
    arguments = arguments or (options.arguments if options is not None else ())
    if not isinstance(target, str):
        return _of_function(target, given)
    if options is not None and options.module:
        file = Script(target, tuple(arguments), module=True).file
        return Located(Target("script", target, {"module": True}, tuple(arguments)), file, "")
    path, _, function = target.rpartition(":")
    if not (path.endswith(".py") or target.endswith(".py")):
        return _of_model(target, given, arguments)
    file = Path(path or target)
    from gpuscope.program.models.user_file import functions_of, is_script

    functions_of(file)  # says what is wrong with the file
    if path and arguments:
        raise InvalidValueError(
            Text("{target} is a function: it takes no arguments of a script.", target=target),
            "",
            Text("Leave out: {arguments}", arguments=" ".join(arguments)),
        )
    if not path and (arguments or is_script(file)):
        return Located(Target("script", target, given, tuple(arguments)), file, "")
    named = function if path else "build"
    return Located(Target("build", f"{file}:{named}", given), file, named)


def _of_model(target: str, given: dict[str, object], arguments: Sequence[str]) -> Located:
    from gpuscope.program.workload import check_name

    if arguments:
        raise InvalidValueError(
            Text("{target} is no script: it takes no arguments.", target=target),
            "",
            Text("Leave out: {arguments}", arguments=" ".join(arguments)),
        )
    check_name(target)
    return Located(Target("build", target, given), None, "")


def _of_function(function: Callable[..., Any], given: dict[str, object]) -> Located:
    if not callable(function):
        raise WorkloadError(
            Text("A target cannot be a {name}.", name=type(function).__name__),
            "",
            Text("Give a build function, file.py:build, a model's name, or a script."),
        )
    bare = inspect.unwrap(function)
    name = getattr(bare, "__qualname__", "")
    try:
        file = Path(inspect.getsourcefile(bare) or "")
    except TypeError:
        file = Path()
    if not name.isidentifier():
        what = "A lambda" if name.endswith("<lambda>") else f"'{name or function!r}'"
        raise WorkloadError(
            Text("{what} cannot be tried.", what=what),
            Text(
                "Each trial runs in a process of its own, which finds functions at the top level "
                "of a file only."
            ),
            _ASK,
        )
    if not file.is_file() or file.suffix != ".py":
        raise WorkloadError(
            Text("'{name}' cannot be tried.", name=name),
            Text(
                "It is not in a file (a notebook's cell or an interactive session): a trial, which "
                "runs in a process of its own, cannot find it."
            ),
            _ASK,
        )
    return Located(Target("build", f"{_near(file)}:{name}", given), _near(file), name)


def _near(file: Path) -> Path:
    """Relative to where we are, if it lies below."""
    full, here = file.resolve(), Path.cwd()
    return full.relative_to(here) if full.is_relative_to(here) else full


def _plain(options: WorkloadOptions | None) -> dict[str, object]:
    """The options that were set."""
    if options is None:
        return {}
    if options.parallel is not None:
        raise UnsupportedError(
            Text("A ready-made job of several devices cannot be tried."),
            Text("It exists for predictions only."),
            Text("Type: gpuscope advise ... --on 8xh200"),
        )
    usual = type(options)()
    # These are no options of a workload.
    scripts = ("arguments", "allow_writes", "keep", "module", "step")
    values = {f.name: getattr(options, f.name) for f in fields(options) if f.name not in scripts}
    return {name: v for name, v in values.items() if v != getattr(usual, name)}
