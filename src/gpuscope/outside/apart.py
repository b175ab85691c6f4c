"""Reads a file that may be anything in a process of its own: `python -m gpuscope.outside.apart`.

A pickle of 152 bytes can hash for ever within one instruction, and ask for gigabytes: only another
process can be stopped there, and given a limit of memory that hits no other thread. It sends back
what it made of the file, values of this package's own types; the bytes of the file are never
unpickled on this side.
"""

from __future__ import annotations

import importlib
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from gpuscope import children
from gpuscope.document.text import Text
from gpuscope.errors import GpuscopeError, InputFileError
from gpuscope.outside import limits

_PATIENCE = 4
"""Wall time for each second of processor time: the machine may be busy."""


def read_apart(function: str, path: str | Path, *, size: int | None = None) -> Any:
    """Have a file read by a process of its own, within the limits for a file of its size.

    Args:
        function: who reads it: "module:function", of this package, which takes the path alone.
        path: the file, or a folder of files.
        size: bytes of all that is read; None: as the file says.

    Raises:
        InputFileError: as the function raises; too slow, too large, or the process died over it.
    """
    nbytes = _size(Path(path)) if size is None else size
    memory, seconds = limits.memory_bytes(nbytes), limits.seconds(nbytes)
    command = children.python(
        "gpuscope.outside.apart", function, os.fspath(path), str(memory), str(seconds)
    )
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # Python itself complains there of damaged bytes
        env=children.environment(),
    )
    try:
        answer, _ = process.communicate(timeout=seconds * _PATIENCE + 5)
    except subprocess.TimeoutExpired:
        raise limits.takes_too_long(path, seconds) from None
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    if process.returncode == -getattr(signal, "SIGXCPU", 0):
        raise limits.takes_too_long(path, seconds)
    if process.returncode or not answer:
        raise _died(path, process.returncode)
    kind, value = pickle.loads(answer)
    if kind == "memory":
        raise limits.takes_too_much(path, memory)
    if kind == "error":
        raise InputFileError(*value)
    return value


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0  # whoever reads it says what is wrong


def _died(path: str | Path, code: int) -> InputFileError:
    return InputFileError(
        Text("{path} could not be read.", path=path),
        Text("The process that read it ended with {code}.", code=code),
        Text("It is damaged: make it again."),
    )


def answer_of(function: str, path: str) -> tuple[str, Any]:
    """What a reader makes of a file: "value" and that, "error" and its sentences, or "memory"."""
    module, _, name = function.partition(":")
    if not module.startswith("gpuscope."):
        raise ValueError(function)
    try:
        return "value", getattr(importlib.import_module(module), name)(Path(path))
    except GpuscopeError as error:
        return "error", (error.what, error.why, error.next_step)
    except (MemoryError, RecursionError):
        return "memory", None


def _limit(memory: int, seconds: float) -> None:
    """Bound this process, where the system can: beyond what it uses now."""
    try:
        import resource
    except ImportError:
        return  # Windows: the other side waits no longer than it said
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = max(1, int(used.ru_utime + used.ru_stime + seconds + 0.999))
    if hard == resource.RLIM_INFINITY or most < hard:
        resource.setrlimit(resource.RLIMIT_CPU, (most, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform.startswith("linux"):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + memory
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        for other in (soft, hard):
            most = most if other == resource.RLIM_INFINITY else min(most, other)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def main() -> None:
    """Read one file; arguments: function, path, bytes of memory, seconds."""
    function, path, memory, seconds = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other side says what is to be said
    # What libraries print must not end up in the answer.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    importlib.import_module(function.partition(":")[0])
    _limit(int(memory), float(seconds))
    answer = answer_of(function, path)
    try:
        packed = pickle.dumps(answer, protocol=5)
    except (MemoryError, RecursionError):
        packed = pickle.dumps(("memory", None))
    with out:
        out.write(packed)


if __name__ == "__main__":
    main()
