"""Run the user's workload for real; what goes wrong becomes one clear error."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpuscope.document.quantities import Bytes
from gpuscope.document.text import Text, capital, joined, verbatim
from gpuscope.errors import DoesNotFitError, GpuscopeError, WorkloadError
from gpuscope.program.user_code import user_line

_SCALE = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_AMOUNT = r"(?P<{0}>[\d.]+) (?P<{0}_unit>bytes|KiB|MiB|GiB|TiB)"
_ASKED = re.compile("Tried to allocate " + _AMOUNT.format("asked"))
_FREE = re.compile("of which " + _AMOUNT.format("free") + " is free")
_TOTAL = re.compile("total capacity of " + _AMOUNT.format("total"))
_NO_GPU_BUILD = re.compile(
    r"not compiled with CUDA|Found no NVIDIA driver|No CUDA GPUs|not linked with support for"
    r"|no NVIDIA driver|No HIP GPUs"
)


class OutOfDeviceMemoryError(DoesNotFitError):
    """The device ran out of memory while the workload ran.

    Attributes:
        asked_bytes: what the failing call asked for; None if the message does not say.
        missing_bytes: how much of that was not there; None if unknown.
    """

    def __init__(self, what: str, why: str, next_step: str, asked: int | None, missing: int | None):
        super().__init__(what, why, next_step)
        self.asked_bytes = asked
        self.missing_bytes = missing


def run_workload(what: str, call: Callable[[], Any]) -> Any:
    """Call `call()`; errors in the user's terms.

    Args:
        what: what is called, as the user knows it: "build()", "step 3".

    Raises:
        OutOfDeviceMemoryError: the device has not enough memory.
        WorkloadError: it raised anything else.
    """
    try:
        return call()
    except (GpuscopeError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        raise explained(what, error) from error


def explained(what: str, error: BaseException) -> GpuscopeError:
    """Return the error to show for what the workload raised."""
    if is_out_of_memory(error):
        return out_of_memory(what, error)
    what = what if what.endswith("()") else capital(what)
    text = str(error).strip().split("\n")[0] or type(error).__name__
    raised = Text(
        "{what} raised {error}{line}.", what=what, error=type(error).__name__, line=user_line(error)
    )
    if _NO_GPU_BUILD.search(str(error)):
        return WorkloadError(
            Text(
                "{what} asks for a GPU that is not there{line}.", what=what, line=user_line(error)
            ),
            text,
            Text(
                "Predict it instead (gpuscope predict), or let it run on the processor: --device "
                "cpu."
            ),
        )
    return WorkloadError(raised, text, _next_step(error))


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an allocation on the device failed."""
    torch: Any = sys.modules.get("torch")  # what it raises, it is there to raise
    kind = getattr(torch, "OutOfMemoryError", None)
    known = kind is not None and isinstance(error, kind)
    return known or "out of memory" in str(error).lower()[:400]


def out_of_memory(what: str, error: BaseException) -> OutOfDeviceMemoryError:
    """Say which call failed, what it asked for and how much of that was missing."""
    text = str(error)
    asked, free, total = _amount(_ASKED, text), _amount(_FREE, text), _amount(_TOTAL, text)
    missing = None if asked is None or free is None else max(0, asked - free)
    parts = []
    if asked is not None:
        parts.append(Text("{call} asked for {asked}", call=_call(error), asked=Bytes(asked)))
        if free is not None:
            left, lacked = Bytes(free), Bytes(missing)
            parts.append(Text("{left} was free, so {lacked} was missing", left=left, lacked=lacked))
    if total is not None:
        parts.append(Text("the device has {total}", total=Bytes(total)))
    why = Text("{sentence}.", sentence=capital(joined(parts, "; ")))
    return OutOfDeviceMemoryError(
        Text("The device ran out of memory in {what}{line}.", what=what, line=user_line(error)),
        why if parts else verbatim(text.split("\n")[0]),
        Text("Type: gpuscope predict ... to see what holds the memory and what would make it fit."),
        asked,
        missing,
    )


def _amount(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    if found is None:
        return None
    name = next(iter(n for n in found.groupdict() if not n.endswith("_unit")))
    return int(float(found[name]) * _SCALE[found[f"{name}_unit"]])


def _call(error: BaseException) -> str:
    """The innermost function of PyTorch that was called: "linear()"."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if "torch" in frame.filename and not frame.name.startswith("<"):
            return f"{frame.name}()"
    return Text("an operator")


def _next_step(error: BaseException) -> Text:
    if isinstance(error, ModuleNotFoundError):
        return Text("Install '{name}' in this environment, or do without it.", name=error.name)
    if isinstance(error, FileNotFoundError):
        return Text("Give a path that exists from here ({folder}).", folder=Path.cwd())
    if isinstance(error, StopIteration):
        return Text("Let the data go round: measuring runs the step many times.")
    if isinstance(error, SystemExit):
        return Text("Take the exit out of the workload, and return a step from build().")
    return Text("Make it run by itself first: call build()() in Python.")
