"""Plain data out of a pickle, and nothing else: no class is looked up, so no code can run.

A pickle is a program. What makes it dangerous are the opcodes that name a class or function; a
snapshot needs none of them, since it consists of dicts, lists, tuples, strings and numbers. Every
such opcode ends in `Unpickler.find_class` or `persistent_load`, and both refuse here. What is left
are containers of atoms, of any size: a few bytes can ask for a table of many gigabytes, or for the
hash of a key that takes for ever. So a file from elsewhere is read in a process of its own, with
limits (`gpuscope.outside.apart`).
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, NoReturn

from gpuscope.document.text import Text
from gpuscope.errors import InputFileError


class _RefusedError(Exception):
    """The pickle asks for more than plain data."""


class _PlainUnpickler(pickle.Unpickler):
    """Gives builtin containers and atoms, refuses everything else."""

    def find_class(self, module: str, name: str) -> NoReturn:
        name = f"{module}.{name}"
        raise _RefusedError(Text("It asks for the Python object {name}.", name=name))

    def persistent_load(self, pid: object) -> NoReturn:
        raise _RefusedError(Text("It refers to objects outside of itself."))


_SNAPSHOT_AGAIN = Text("Dump one with torch.cuda.memory._dump_snapshot(FILE).")
_SNAPSHOT = Text("memory snapshot")


def load_plain(path: str | Path, named: str = _SNAPSHOT, again: str = _SNAPSHOT_AGAIN) -> Any:
    """Read a pickle of plain data.

    Args:
        path: the file.
        named: what it should be, for errors.
        again: how such a file is made, for errors.

    Returns:
        What was pickled: dicts, lists, tuples, sets, strings, bytes, numbers, bools, None.

    Raises:
        InputFileError: missing, unreadable, cut off, not a pickle, or a pickle that would look up
            classes or functions (which is refused, not run).
        MemoryError: it asks for more than there is.
    """
    target = Path(path)
    try:
        with target.open("rb") as file:
            size = target.stat().st_size
            if size == 0:
                raise InputFileError(Text("{path} is empty.", path=path), "", again)
            return _PlainUnpickler(file, buffers=()).load()
    except _RefusedError as error:
        raise InputFileError(
            Text("{path} is not a plain {named}.", path=path, named=named),
            Text(
                "{error} A {named} consists of dicts, lists and numbers; nothing was run.",
                error=error.args[0],
                named=named,
            ),
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
            Text("{path} cannot be read.", path=path),
            f"{error.strerror or error}.",
            Text("Check the path."),
        ) from error
    except InputFileError:
        raise
    except MemoryError:
        raise  # whoever set the limit says so
    except Exception as error:
        # Damaged opcodes surface as any error: KeyError, IndexError, TypeError, ValueError, ...
        raise _not_a_pickle(path, error, again) from error


def _cut_off(path: str | Path) -> InputFileError:
    return InputFileError(
        Text("{path} is cut off.", path=path),
        Text("The pickle ends in the middle."),
        Text("Copy it again, or dump it again."),
    )


def _not_a_pickle(path: str | Path, error: Exception, again: str) -> InputFileError:
    reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    return InputFileError(Text("{path} is not a readable pickle.", path=path), f"{reason}.", again)
