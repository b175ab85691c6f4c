"""Run a function in a process of its own, under guard, and have back what it returns.

Why not in this process: what keeps a user's code from leaving anything behind (mounts of its own,
an audit hook) cannot be taken back. Why not `multiprocessing`: its children import the caller's
script again. One server is started at the first call: a process of one thread that has imported
torch. Each call is a fork of it, so that it begins anew with the files as they are. The server ends
with this process, or when nobody asks for a minute.
"""

from __future__ import annotations

import builtins
import importlib
import io
import os
import pickle
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

from gpuscope import children
from gpuscope.document.text import Text
from gpuscope.errors import GpuscopeError, WorkloadError
from gpuscope.program.guard import Held

__all__ = ["Answer", "Request", "call_elsewhere", "imported_before_capture"]

LENGTH = struct.Struct("<Q")

_SERVER = "gpuscope.program.guard.server"

IDLE_S = 60.0
"""Without a request for so long the server ends, seconds."""

_PLAIN = frozenset({"complex", "frozenset", "set", "bytearray", "slice", "range"})
"""Of Python's own types, those that a pickle names."""

inside = threading.Event()
"""Set in a process that was forked for a call: calls in it are made at once."""

imported_first: set[str] = set()
"""Modules that were there when the capture began, in a process that was forked for a call."""


def imported_before_capture() -> None:
    """Note what is imported: a later process has it imported likewise, outside of a capture."""
    imported_first.update(sys.modules)


@dataclass(frozen=True, slots=True)
class Request:
    """One call.

    Attributes:
        function: "module:name" of a function at the top level of a module of ours.
        arguments: its arguments.
        script: to name in errors.
        guarded: it must leave nothing behind.
        shown: what it prints goes to standard error; else it is lost.
        real: folders that may be written to all the same.
        folder, environment, path: of this process (`os.getcwd`, `os.environ`, `sys.path`).
    """

    function: str
    arguments: tuple[Any, ...]
    script: str
    guarded: bool
    shown: bool
    real: tuple[str, ...]
    folder: str
    environment: dict[str, str]
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of it: a value, or an error as its class and its parts."""

    value: Any = None
    held: Held | None = None
    error: tuple[str, tuple[Any, ...], dict[str, Any]] | None = None


def call_elsewhere(
    function: Callable[..., Any],
    *arguments: Any,
    script: str,
    guarded: bool = True,
    shown: bool = False,
    real: tuple[str, ...] = (),
) -> tuple[Any, Held | None]:
    """Call a function in another process.

    Args:
        function: one at the top level of a module of gpuscope's.
        arguments: what a pickle can hold, as must be what is returned.
        script: whose code it runs, to name in errors.
        guarded: it must leave nothing behind.
        shown: what it prints goes to standard error; else it is lost.
        real: folders that may be written to all the same.

    Returns:
        What the function returned, and what kept it from leaving anything behind; None for the
        latter where nothing did.

    Raises:
        GpuscopeError: as the function does.
        WorkloadError: the process ended on its own.
    """
    if inside.is_set():
        return function(*arguments), None
    request = Request(
        function=f"{function.__module__}:{function.__qualname__}",
        arguments=arguments,
        script=script,
        guarded=guarded,
        shown=shown,
        real=real,
        folder=os.getcwd(),
        environment=dict(os.environ),
        path=tuple(sys.path),
    )
    answer = _server.ask(request)
    if answer.error is not None:
        raise _rebuilt(*answer.error)
    return answer.value, answer.held


class _Server:
    """The server, started when it is needed; one call at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._requests: BinaryIO
        self._answers: BinaryIO

    def ask(self, request: Request) -> Answer:
        """Send a request and wait for its answer.

        Raises:
            WorkloadError: the process that ran it ended before it answered.
        """
        data = pickle.dumps(request, protocol=5)
        with self._lock:
            try:
                if not self._sent(data):
                    self._stop()
                    self._sent(data)
                answer = receive(self._answers)
            except (OSError, EOFError) as error:
                self._stop()
                raise _ended(request.script, Text("The process ended.")) from error
            except BaseException:  # an interrupt, say: whoever works on it is to stop, too
                self._stop()
                raise
        if isinstance(answer, Answer):
            return answer
        raise _ended(request.script, Text("It ended with the status {status}.", status=answer))

    def _sent(self, data: bytes) -> bool:
        """Send to the server that runs, or to a new one; False where it went away meanwhile."""
        if self._process is None or self._owner != os.getpid():
            self._start()
        try:
            send_bytes(self._requests, data)
            return self._answers.read(1) == b"."
        except OSError:
            return False

    def _start(self) -> None:
        here, there = os.pipe(), os.pipe()
        self._process = subprocess.Popen(
            children.python(_SERVER, str(here[0]), str(there[1]), str(IDLE_S)),
            stdin=subprocess.DEVNULL,
            env=children.environment(),
            pass_fds=(here[0], there[1]),
            start_new_session=True,
        )
        os.close(here[0])
        os.close(there[1])
        self._owner = os.getpid()
        self._requests, self._answers = os.fdopen(here[1], "wb"), os.fdopen(there[0], "rb")

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for stream in (self._requests, self._answers):
            try:
                stream.close()
            except OSError:
                continue
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


_server = _Server()


def _ended(script: str, how: Text) -> WorkloadError:
    return WorkloadError(
        Text("The process that ran {script} ended on its own.", script=script),
        how,
        Text("Make it run by itself first: python {path}", path=script),
    )


# -- what goes over the pipes ----------------------------------------------------------------------


def send_bytes(stream: BinaryIO, data: bytes) -> None:
    """Send bytes, their number first."""
    stream.write(LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


def receive_bytes(stream: BinaryIO) -> bytes:
    """What `send_bytes` sent.

    Raises:
        EOFError: nobody sends any more.
    """
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        raise EOFError
    length = LENGTH.unpack(head)[0]
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    return data


def receive(stream: BinaryIO) -> Any:
    """An answer; nothing in it can run code: it holds types of ours and plain ones alone.

    Raises:
        EOFError: nobody sends any more.
        pickle.UnpicklingError: it holds something else.
    """
    return _Reader(io.BytesIO(receive_bytes(stream))).load()


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Types of this package, and plain ones."""
        if module == "builtins" and name in _PLAIN:
            return getattr(builtins, name)
        found = super().find_class(module, name) if module.startswith("gpuscope.") else None
        ours = getattr(found, "__module__", "").startswith("gpuscope.")
        if not ours:
            raise pickle.UnpicklingError(f"an answer may not hold {module}.{name}")
        return found


def taken_apart(error: BaseException) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """An exception as plain data."""
    import traceback

    kind = type(error)
    if isinstance(error, GpuscopeError):
        own = {k: v for k, v in vars(error).items() if not k.startswith("__")}
        return f"{kind.__module__}:{kind.__qualname__}", error.args, own
    told = "".join(traceback.format_exception(error))
    name = kind.__qualname__ if kind.__module__ == "builtins" else "RuntimeError"
    return f"builtins:{name}", (str(error),), {"__notes__": [told]}


def _rebuilt(name: str, arguments: tuple[Any, ...], own: dict[str, Any]) -> BaseException:
    module, _, kind = name.partition(":")
    found = getattr(importlib.import_module(module), kind, RuntimeError)
    if not (isinstance(found, type) and issubclass(found, BaseException)):
        found = RuntimeError
    error: BaseException = found.__new__(found, *arguments)
    error.args = arguments
    vars(error).update(own)
    return error
