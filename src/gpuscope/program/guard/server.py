"""What runs functions for `elsewhere`: `python -m gpuscope.program.guard.server IN OUT`.

One thread, torch imported, nothing else done: so it can be forked without harm. Each request is a
fork with a session of its own, which ends with everything that it started. Installed libraries and
modules of ours that a fork imported are imported here before the next one, so that many runs of a
script import them twice, not each time.
"""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import os
import pickle
import select
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from typing import IO, Any

from gpuscope.errors import GpuscopeError, RefusedError
from gpuscope.program.capture import endless
from gpuscope.program.guard import Held, elsewhere, enter
from gpuscope.program.guard.elsewhere import Answer, Request, receive_bytes, send_bytes
from gpuscope.program.user_code import is_library

__all__ = ["main"]

_POLL_S = 0.002

_SCRATCH: Any = {"prefix": "gpuscope-script-", "ignore_cleanup_errors": True}

_NEEDED = (
    "gpuscope.capturing",
    "gpuscope.program.guard.landlock",
    "gpuscope.program.guard.overlay",
    "gpuscope.program.guard.redirection",
    "gpuscope.program.guard.refusing",
    "gpuscope.program.script.capturing",
    "gpuscope.program.workload",
)
"""What forks would import each."""

_NOWHERE = open(os.devnull, "w")  # noqa: SIM115
"""Where libraries speak that are imported ahead; some keep it for all that they ever say."""

_DIES_WITH_PARENT = 1
"""`PR_SET_PDEATHSIG` of `linux/prctl.h`."""


def main() -> None:
    """Serve requests until there are no more."""
    reading, writing = (int(text) for text in sys.argv[1:3])
    idle_s = float(sys.argv[3])
    sys.argv[1:] = []
    requests, answers = os.fdopen(reading, "rb"), os.fdopen(writing, "wb")
    for descriptor in (reading, writing):
        os.set_inheritable(descriptor, False)
    _prepare()
    libraries: list[list[str]] = []
    while select.select([reading], [], [], idle_s)[0]:
        try:
            data = receive_bytes(requests)
        except EOFError:
            return
        answers.write(b".")
        answers.flush()
        request: Request = pickle.loads(data)
        if any(libraries):
            _import_as_there(libraries[0], libraries[1], request)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # not without taking all down
        with (
            _result() as result,
            _result() as imported,
            tempfile.TemporaryDirectory(**_SCRATCH) as scratch,
        ):
            status = _forked(_Fork(request, scratch, result, imported), reading)
            result.seek(0)
            imported.seek(0)
            send_bytes(answers, pickle.dumps(status) if status else result.read())
            libraries = [line.split() for line in imported.read().decode().split("\n")]
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _prepare() -> None:
    """Import and define what every capture needs, by making one; forks find it there.

    Without gradients: a backward pass would start threads, which a fork does not have.
    """
    for module in _NEEDED:
        importlib.import_module(module)
    if importlib.util.find_spec("torch") is None:
        return  # who needs it says so
    from gpuscope.program.capture import capture

    with suppress(Exception):  # what is wrong is told to whoever captures something
        capture(_smallest)
    gc.collect()
    gc.freeze()


def _smallest() -> Callable[[], object]:
    import torch

    layer = torch.nn.Linear(8, 8).to("cuda")

    def step() -> object:
        with torch.no_grad():
            return layer(torch.randn(2, 8, device="cuda"))

    return step


def _import_as_there(plainly: list[str], captured: list[str], request: Request) -> None:
    """Import what a fork did: before a capture or under one, as it did, with its environment."""
    from gpuscope.program.capture import capture

    def take(libraries: list[str]) -> None:
        for name in libraries:
            with suppress(Exception):
                importlib.import_module(name)

    def build() -> Callable[[], object]:
        take(captured)
        return _smallest()

    _take_over(request)
    with suppress(Exception), redirect_stdout(_NOWHERE), redirect_stderr(_NOWHERE):
        take(plainly)
        if captured:
            capture(build)
    gc.collect()
    gc.freeze()


def _take_over(request: Request) -> None:
    """Environment and path of who asks."""
    os.environ.clear()
    os.environ.update(request.environment)
    tempfile.tempdir = None
    sys.path[:] = request.path


def _libraries(before: set[str]) -> list[str]:
    """Modules of ours and of installed packages that were imported since."""
    new = [(name, module) for name, module in sys.modules.items() if name not in before]
    return [
        name
        for name, module in new
        if not name.startswith("__") and _stays(name, module) and " " not in name
    ]


def _stays(name: str, module: object) -> bool:
    """Whether a module is the same in each run, as the user's own are not."""
    return name.startswith("gpuscope.") or is_library(getattr(module, "__file__", None) or "")


def _result() -> IO[bytes]:
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("gpuscope"), "w+b")
    return tempfile.TemporaryFile()


@dataclass(frozen=True, slots=True)
class _Fork:
    """One request: what to do, a scratch folder, where the answer and the libraries go."""

    request: Request
    scratch: str
    result: IO[bytes]
    imported: IO[bytes]


def _forked(fork: _Fork, reading: int) -> int:
    """Run a request in a fork; returns its exit status."""
    with warnings.catch_warnings():  # of libraries' idle threads, which a fork leaves behind
        warnings.filterwarnings("ignore", ".* multi-threaded, use of fork", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            _run(fork)
        except BaseException:
            os._exit(1)
        os._exit(0)
    asked = select.poll()
    asked.register(reading, 0)  # told alone when the other end is gone
    done = status = 0
    try:
        while not done:
            done, status = os.waitpid(child, os.WNOHANG)
            if asked.poll(0) and not done:
                sys.exit()
            time.sleep(0 if done else _POLL_S)
    finally:
        with suppress(OSError):
            os.killpg(child, signal.SIGKILL)
        if not done:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    return status


def _run(fork: _Fork) -> None:
    os.setsid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)
    # Standard output holds results alone; nor are the programs shown that a script starts.
    if fork.request.shown:
        os.dup2(2, 1)
    else:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
    elsewhere.inside.set()
    before = set(sys.modules)
    endless.give_up = lambda error: _ended(fork, error)
    answer = _answer(fork.request, fork.scratch)
    endless.give_up = None
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    try:
        written = pickle.dumps(answer, protocol=5)
    except Exception as error:
        written = pickle.dumps(Answer(error=elsewhere.taken_apart(error)), protocol=5)
    fork.result.write(written)
    fork.result.flush()
    new, first = _libraries(before), elsewhere.imported_first
    lists = ([n for n in new if n in first], [n for n in new if n not in first])
    fork.imported.write("\n".join(" ".join(names) for names in lists).encode())
    fork.imported.flush()


def _ended(fork: _Fork, error: GpuscopeError) -> None:
    """End this process with an error as its answer, from a thread beside what never ends."""
    fork.result.write(pickle.dumps(Answer(error=elsewhere.taken_apart(error)), protocol=5))
    fork.result.flush()
    os._exit(0)


def _answer(request: Request, scratch: str) -> Answer:
    held: Held | None = None
    try:
        _take_over(request)
        os.chdir(request.folder)
        function: Any = _found(request.function)
        if request.guarded:
            from gpuscope.program.guard.places import caches

            held = enter(request.script, scratch, [*caches(), *request.real])
        value = function(*request.arguments)
        from gpuscope.program.guard.refusing import refused

        if refused:  # and it went on
            raise refused[0]
        return Answer(value, held)
    except RefusedError as refusal:
        return Answer(held=held, error=elsewhere.taken_apart(refusal.error))
    except BaseException as error:
        return Answer(held=held, error=elsewhere.taken_apart(error))


def _found(name: str) -> Any:
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


if __name__ == "__main__":
    main()
