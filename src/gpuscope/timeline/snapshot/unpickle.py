"""Plain data out of a pickle, and nothing else: no class is looked up, so no code can run.

A pickle is a program. What makes it dangerous are the opcodes that name a class or function; a
snapshot needs none of them, since it consists of dicts, lists, tuples, strings and numbers. Every
such opcode ends in `Unpickler.find_class` or `persistent_load`, and both refuse here. What is left
are containers of atoms, whose size is bounded: the address space that the reading may take on top
of what is in use is limited by the size of the file.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from gpuscope.errors import InputFileError

MEMORY_FACTOR = 60
"""Bytes of memory that a byte of a pickle may need: a reference to a small object is two bytes in
the file, and a few tens in memory."""

LEAST_MEMORY_BYTES = 1 << 30


class _RefusedError(Exception):
    """The pickle asks for more than plain data."""


class _PlainUnpickler(pickle.Unpickler):
    """Gives builtin containers and atoms, refuses everything else."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise _RefusedError(f"It asks for the Python object {module}.{name}.")

    def persistent_load(self, pid: object) -> NoReturn:
        raise _RefusedError("It refers to objects outside of itself.")


_SNAPSHOT_AGAIN = "Dump one with torch.cuda.memory._dump_snapshot(FILE)."


def load_plain(
    path: str | Path, named: str = "memory snapshot", again: str = _SNAPSHOT_AGAIN
) -> Any:
    """Read a pickle of plain data.

    Args:
        path: the file.
        named: what it should be, for errors.
        again: how such a file is made, for errors.

    Returns:
        What was pickled: dicts, lists, tuples, sets, strings, bytes, numbers, bools, None.

    Raises:
        InputFileError: missing, unreadable, cut off, not a pickle, larger in memory than its size
            allows for, or a pickle that would look up classes or functions (which is refused, not
            run).
    """
    target = Path(path)
    try:
        with target.open("rb") as file:
            size = target.stat().st_size
            if size == 0:
                raise InputFileError(f"{path} is empty.", "", again)
            with _bounded_memory(max(LEAST_MEMORY_BYTES, size * MEMORY_FACTOR)):
                return _PlainUnpickler(file, buffers=()).load()
    except _RefusedError as error:
        raise InputFileError(
            f"{path} is not a plain {named}.",
            f"{error} A {named} consists of dicts, lists and numbers; nothing was run.",
            again,
        ) from None
    except EOFError as error:
        raise _cut_off(path) from error
    except pickle.UnpicklingError as error:
        if "truncated" in str(error):
            raise _cut_off(path) from error
        raise _not_a_pickle(path, error, again) from error
    except OSError as error:
        raise InputFileError(
            f"{path} cannot be read.", f"{error.strerror or error}.", "Check the path."
        ) from error
    except InputFileError:
        raise
    except MemoryError as error:
        raise InputFileError(
            f"{path} does not fit in memory.",
            f"It is damaged, or holds far more than a {named} of its size.",
            "Dump it again with fewer entries: _record_memory_history(max_entries=100_000)."
            if again == _SNAPSHOT_AGAIN
            else again,
        ) from error
    except Exception as error:
        # Damaged opcodes surface as any error: KeyError, IndexError, TypeError, ValueError, ...
        raise _not_a_pickle(path, error, again) from error


def _cut_off(path: str | Path) -> InputFileError:
    return InputFileError(
        f"{path} is cut off.", "The pickle ends in the middle.", "Copy it again, or dump it again."
    )


def _not_a_pickle(path: str | Path, error: Exception, again: str) -> InputFileError:
    reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    return InputFileError(
        f"{path} is not a readable pickle.", f"{reason}.", again
    )  # fmt: skip


@contextmanager
def _bounded_memory(nbytes: int) -> Iterator[None]:
    """Let the address space grow by at most `nbytes`, where the system can say how large it is.

    A few bytes of a damaged pickle can ask for a table of many gigabytes before anything is read.
    """
    if not sys.platform.startswith("linux"):
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit = used + nbytes
    if soft != resource.RLIM_INFINITY:
        limit = min(limit, soft)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
