"""Captured programs, kept from one command to the next.

A second question on the same program (another device, a link, a what-if, a report) then needs
neither PyTorch nor a capture. Only commands keep: what runs in somebody's own process may have
changed PyTorch in ways that nobody sees. What is in doubt is captured again.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuscope.kept.files import File
    from gpuscope.program.models.settings import WorkloadOptions

__all__ = ["CACHE", "KeptProgram", "Store", "is_off", "programs"]


CACHE = "GPUSCOPE_CACHE"
"""Environment variable: the folder of what is kept, or "off"."""

_Form = tuple[str, list[Any], bytes]
"""A file: the workload's name, the sources of its capture, the program."""


def is_off() -> bool:
    """Whether nothing is to be kept."""
    return os.environ.get(CACHE, "").strip().lower() in ("off", "0", "no", "none", "false")


@dataclass(frozen=True, slots=True)
class _Waiting:
    """What was captured in this process, to be written when there is time."""

    captured: Any
    name: str
    again: Callable[[], str | None]


class Store:
    """What is kept, as one process sees it."""

    def __init__(self) -> None:
        self._began_ns = time.time_ns()
        # Whoever has imported PyTorch before us may have changed its defaults.
        self._open = "torch" not in sys.modules and not is_off()
        self._environment, self._path = dict(os.environ), tuple(sys.path)
        self._waiting: dict[str, _Waiting] = {}

    def captured(
        self,
        workload: str,
        options: WorkloadOptions,
        ranks: tuple[int, int],
        strict: bool,
        capture: Callable[[], Any],
    ) -> Any:
        """Return what is kept of a question, else what `capture` gives, to be kept.

        Args:
            workload, options, ranks, strict: as `question_of` takes them.
            capture: captures it; its errors are passed on.
        """
        if not self._open:
            return capture()
        from gpuscope.kept.question import Surroundings, question_of

        around = Surroundings(self._environment, self._path)

        def ask() -> str | None:
            return question_of(workload, options, ranks, strict, around)

        question = ask()
        if question is None:
            return capture()
        if question in self._waiting:
            return self._waiting[question].captured
        found = _found(question)
        if found is None:
            found = capture()
            self._waiting[question] = _Waiting(found, workload, ask)
        return found

    def write(self) -> None:
        """Write what was captured; what cannot be kept is left."""
        if not self._waiting:
            return
        import msgspec

        from gpuscope.kept import files
        from gpuscope.kept.form import NotKeptError, packed
        from gpuscope.kept.sources import as_they_are

        sources = as_they_are(self._began_ns)
        for question, waiting in self._waiting.items():
            # What was changed while it was captured may be in it or not.
            if sources is None or waiting.again() != question:
                continue
            try:
                program = packed(waiting.captured)
            except NotKeptError:
                continue
            files.write(question, msgspec.msgpack.encode([waiting.name, sources, program]))
        self._waiting.clear()


@dataclass(frozen=True, slots=True)
class KeptProgram:
    """One that is kept: what the user called it, and its file."""

    workload: str
    file: File


def programs() -> list[KeptProgram]:
    """Return all that are kept, the one used last first; broken files are left out."""
    import msgspec

    from gpuscope.kept import files

    found = []
    for file in files.listed():
        data = files.read(file.path.stem, used=False)
        with suppress(msgspec.MsgspecError, ValueError, RecursionError):
            if data is not None:
                workload, *_ = msgspec.msgpack.decode(data, type=_Form)
                found.append(KeptProgram(workload, file))
    return found


def _found(question: str) -> Any:
    """What is kept of a question, None where it is not, or may have changed."""
    from gpuscope.kept import files

    data = files.read(question)
    return None if data is None else opened(data)


def opened(data: bytes) -> Any:
    """The program that a file holds, None where its sources have changed, or it is none."""
    import msgspec

    from gpuscope.kept.form import unpacked
    from gpuscope.kept.sources import unchanged

    try:
        _, sources, program = msgspec.msgpack.decode(data, type=_Form)
        return unpacked(program) if unchanged(sources) else None
    except (msgspec.MsgspecError, LookupError, TypeError, ValueError, RecursionError):
        return None
