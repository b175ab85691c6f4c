"""Code that comes to no end while it is captured: loops on data that nobody has, servers, waits.

Data of the device has no values here; what a loop reads of it is assumed, and is the same in each
pass. So a capture may run so many operators, take so long, and read data in one line so often, and
no further: then it stops with one error that names the loop.
"""

from __future__ import annotations

import _thread
import ast
import ctypes
import linecache
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any

from gpuscope.document.quantities import Number, Seconds
from gpuscope.document.text import Text
from gpuscope.errors import CaptureError, RefusedError
from gpuscope.outside import limits
from gpuscope.program.capture import loops
from gpuscope.program.user_code import is_library

__all__ = ["Watch"]

OPERATORS = 1_000_000
"""Operators that a capture may run, those of `build()` included: a training step of a thousand
layers has a hundred thousand."""

SECONDS = 300.0
"""Seconds that it may take: five times the slowest of the corpus of programs (docs/coverage.md)."""

READS = 10_000
"""Times that one line may read data that is assumed: some seconds' worth."""

_GRACE_S = 1.0
"""After so long code that caught the error gets it again, and a process of its own ends."""

give_up: Callable[[CaptureError], None] | None = None
"""In a process of its own: answers with an error and ends the process, whatever it waits for."""


class Watch:
    """Stops what runs inside of the block when it has gone on for too long.

    Raises:
        CaptureError: at the end of the block, if it did.
    """

    def __init__(self) -> None:
        factor = limits.factor()
        self._operators, self._seconds = OPERATORS * factor, SECONDS * factor
        self._reads_of_a_line = READS * factor
        self._counted = 0
        self._reads: Counter[tuple[str, int]] = Counter()
        self._thread, self._over = threading.get_ident(), threading.Event()
        self._error: CaptureError | None = None

    def __enter__(self) -> Watch:
        _thread.start_new_thread(self._wait, ())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._over.set()
        if error is not None and self._error is not None:
            raise self._error from None  # whatever the code made of it

    def operator(self) -> None:
        """An operator runs."""
        self._counted += 1
        if self._counted > self._operators:
            ran = Text("It ran {count} operators.", count=Number(self._operators, ",.0f"))
            self._stop(sys._getframe(1), ran)

    def read(self) -> None:
        """The host reads data that nobody has."""
        for frame in _own_frames(sys._getframe(1)):
            line = (frame.f_code.co_filename, frame.f_lineno)
            self._reads[line] += 1
            within = self._reads[line] == self._reads_of_a_line // 3 and _loop_of_a_library()
            if self._reads[line] > self._reads_of_a_line or within:
                self._stop(frame, _read_so_often(self._reads[line]))
            return

    def _stop(self, frame: FrameType, why: Text) -> None:
        self._error = self._error or self._refusal(frame, why)
        raise RefusedError(self._error)

    def _wait(self) -> None:
        if self._over.wait(self._seconds):
            return
        frame = sys._current_frames().get(self._thread)
        if frame is None:
            return
        took = Text("It went on for {seconds}.", seconds=Seconds(self._seconds))
        self._error = self._error or self._refusal(frame, took)
        raised = _raised_there(self._error)
        while not self._over.is_set():
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self._thread), ctypes.py_object(raised)
            )
            if not self._over.wait(_GRACE_S) and give_up is not None:
                give_up(self._error)

    def _refusal(self, frame: FrameType, why: Text) -> CaptureError:
        library = _loop_of_a_library()
        if library is not None:
            place, *_ = _own_frames(frame)
            return CaptureError(
                Text(
                    "Line {line} of {file} waits for a loop of PyTorch's that ends by values.",
                    line=place.f_lineno,
                    file=place.f_code.co_filename,
                ),
                Text("{name}: the device computes them, and has none here.", name=library),
                Text("Give it a bound of its own, such as niter=100, or leave it out."),
            )
        line, reads = max(self._reads.items(), key=lambda item: item[1], default=(("", 0), 0))
        frames = list(_own_frames(frame))
        file, number, is_loop = _loop_around(frames)
        what = Text("Line {line} of {file} comes to no end.", line=number, file=file)
        if is_loop and reads > self._reads_of_a_line / 100 and any(_runs(f, line) for f in frames):
            what = Text(
                "The loop at line {line} of {file} depends on data of the device, which has no "
                "values here.",
                line=number,
                file=file,
            )
        elif is_loop:
            what = Text("The loop at line {line} of {file} does not end.", line=number, file=file)
        way = Text(
            "Give it a bound, for example: for _ in range(100): ... Or allow ten times as much: "
            "{variable}={factor}",
            variable=limits.VARIABLE,
            factor=Number(10 * limits.factor(), "g"),
        )
        return CaptureError(what, why, way)


def _read_so_often(count: int) -> Text:
    return Text(
        "It read such data {count} times; what it reads is assumed, and always the same.",
        count=Number(count, ","),
    )


def _raised_there(error: CaptureError) -> type[BaseException]:
    """What another thread can be made to raise: a class without arguments."""

    def init(self: Any) -> None:
        RefusedError.__init__(self, error)

    return type("EndlessError", (RefusedError,), {"__init__": init})


def _loop_of_a_library() -> str | None:
    """The function of PyTorch that asks for values again and again, if one of its loops does."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith("gpuscope.") and not is_library(frame.f_code.co_filename):
            return None
        if name.startswith("torch.") and not name.startswith(_MACHINERY):
            file, line = frame.f_code.co_filename, frame.f_lineno
            if any(loop.lineno <= line <= (loop.end_lineno or 0) for loop in loops.of(file)):
                return f"{name}.{frame.f_code.co_name}"
        frame = frame.f_back
    return None


_MACHINERY = ("torch._subclasses", "torch.utils", "torch._ops", "torch._tensor")


def _own_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """The user's frames, the innermost first."""
    while frame is not None:
        if not is_library(frame.f_code.co_filename):
            yield frame
        frame = frame.f_back


def _runs(frame: FrameType, line: tuple[str, int]) -> bool:
    """Whether a line is of the function that runs in a frame."""
    lines = [number for _, _, number in frame.f_code.co_lines() if number]
    return frame.f_code.co_filename == line[0] and min(lines) <= line[1] <= max(lines)


def _loop_around(frames: list[FrameType]) -> tuple[str, int, bool]:
    """File and line of the innermost `while` around what runs, else of the innermost `for`.

    Without any: the innermost line of the user's, and False.
    """
    for kind in (ast.While, (ast.For, ast.AsyncFor)):
        for frame in frames:
            file, at = frame.f_code.co_filename, frame.f_lineno
            try:
                tree = ast.parse("".join(linecache.getlines(file)))
            except SyntaxError:
                continue
            nodes: Iterator[Any] = ast.walk(tree)
            around = [n.lineno for n in nodes if _is_around(n, kind, at)]
            if around:
                return file, max(around), True
    if not frames:
        return "?", 0, False
    return frames[0].f_code.co_filename, frames[0].f_lineno, False


def _is_around(node: Any, kind: Any, line: int) -> bool:
    return isinstance(node, kind) and bool(node.lineno <= line <= node.end_lineno)
