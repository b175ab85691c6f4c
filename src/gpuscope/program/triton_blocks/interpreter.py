"""Runs the Python of a Triton kernel for one program, with followed blocks in place of Triton's.

The function itself is run: names that stand for Triton, its language or other kernels are replaced
in a copy of its globals; everything else (constants, helpers) is the user's own.
"""

from __future__ import annotations

import traceback
import types
from collections.abc import Callable
from typing import Any

from gpuscope.document.text import Text, verbatim
from gpuscope.program.triton_blocks.language import function_named
from gpuscope.program.triton_blocks.tally import Tally
from gpuscope.program.triton_blocks.values import DTYPES, Block, NotFollowedError, dtype_named
from gpuscope.program.triton_blocks.values import pointer_to as pointer_type

_LIBRARIES = ("math", "libdevice", "extra", "cuda", "fast_math", "hip", "standard", "core")


def run(function: Any, tally: Tally, arguments: dict[str, Any]) -> None:
    """Run a kernel's function for the tally's program.

    Raises:
        NotFollowedError: something in it is not followed; says at which line.
    """
    try:
        _translated(function, tally)(**arguments)
    except NotFollowedError as error:
        raise NotFollowedError(_placed(error.why, error, function)) from error
    except RecursionError as error:
        raise NotFollowedError(Text("It calls itself without end.")) from error
    except Exception as error:
        said = Text("{kind}: {text}", kind=type(error).__name__, text=" ".join(str(error).split()))
        raise NotFollowedError(_placed(said, error, function)) from error


def _placed(why: Text, error: BaseException, function: Any) -> Text:
    file = function.__code__.co_filename
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    if not lines or why.template.startswith("Line "):
        return why
    return Text("Line {line}: {why}", line=lines[-1] or 0, why=why)


def _translated(function: Any, tally: Tally) -> Callable[..., Any]:
    """The function with its globals and its closure's cells replaced."""
    code = function.__code__
    names = _names(code)
    found = {n: _value(function.__globals__[n], tally) for n in names if n in function.__globals__}
    cells = tuple(
        types.CellType(_value(cell.cell_contents, tally)) for cell in function.__closure__ or ()
    )
    language = Language(tally)
    found |= {
        "range": language.range,
        "print": language.static_print,
        "min": _least(tally, "minimum"),
        "max": _least(tally, "maximum"),
        "abs": language.abs,
        "__builtins__": function.__globals__.get("__builtins__", __builtins__),
    }
    return types.FunctionType(code, found, function.__name__, function.__defaults__, cells)


def _names(code: types.CodeType) -> set[str]:
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return set(code.co_names).union(*(_names(c) for c in inner))


def _least(tally: Tally, name: str) -> Callable[..., Any]:
    """`min` and `max`: Python's of numbers, Triton's of blocks."""
    plain = min if name == "minimum" else max

    def least(*given: Any, **named: Any) -> Any:
        if len(given) == 2 and any(isinstance(g, Block) for g in given):
            return function_named(name)(tally, *given)
        return plain(*given, **named)

    return least


def _value(value: Any, tally: Tally) -> Any:
    """What stands for a global of the kernel's file."""
    if isinstance(value, types.ModuleType) or _is_anything(value):
        name = str(getattr(value, "__name__", None) or repr(value))
        if name.partition(".")[0] == "triton":
            return _of_triton(name, tally)
        return value
    inner = value
    while hasattr(inner, "fn") and not isinstance(inner, types.FunctionType):
        inner = inner.fn
    module = str(getattr(value, "__module__", "") or "")
    if module.partition(".")[0] == "triton" and isinstance(inner, types.FunctionType):
        own = inner.__module__ or ""
        if own.partition(".")[0] == "triton":  # tl.sum and the like, by name
            return getattr(Language(tally), inner.__name__)
        return lambda *args, **kwargs: _translated(inner, tally)(*args, **kwargs)
    if inner is not value and isinstance(inner, types.FunctionType):
        return lambda *args, **kwargs: _translated(inner, tally)(*args, **kwargs)
    if module.startswith("triton.language"):
        if hasattr(value, "value"):
            return value.value  # a constexpr
        found = dtype_named(str(value))
        return found if found is not None else getattr(Language(tally), str(value), value)
    if isinstance(value, types.FunctionType) and value.__module__ not in ("builtins", None):
        return lambda *args, **kwargs: _translated(value, tally)(*args, **kwargs)
    return value


def _is_anything(value: Any) -> bool:
    return type(value).__module__.endswith("triton_stand_in") and not hasattr(value, "fn")


def _of_triton(name: str, tally: Tally) -> Any:
    """Triton, a module of it, or a name below it."""
    last = name.rpartition(".")[2]
    if last in ("triton", "language"):
        return Language(tally)
    if any(part in _LIBRARIES for part in name.split(".")[1:]):
        library = Language(tally, library=True)
        return library if last in _LIBRARIES else getattr(library, last)
    return getattr(Language(tally), last)


class Language:
    """`tl` (and `triton`) for one program.

    Args:
        tally: of the program.
        library: a library of mathematics, all of whose functions go element by element.
    """

    constexpr = staticmethod(lambda value: getattr(value, "value", value))
    pointer_type = staticmethod(lambda element, *_: pointer_type(element))
    PropagateNan = types.SimpleNamespace(ALL=1, NONE=0)

    def __init__(self, tally: Tally, *, library: bool = False) -> None:
        self._tally, self._library = tally, library

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in ("language", "tensor", "dtype"):
            return self if name == "language" else object
        if name in _LIBRARIES:
            return Language(self._tally, library=True)
        dtype = DTYPES.get(name) or dtype_named(name)
        if dtype is not None:
            return dtype
        tally, found = self._tally, function_named(name, library=self._library)
        return lambda *args, **kwargs: found(tally, *args, **kwargs)


__all__ = ["Language", "run", "verbatim"]
