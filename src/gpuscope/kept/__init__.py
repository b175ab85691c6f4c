"""Captured programs, and figures that follow from them, kept from one command to the next.

A second question on the same program (another device, a link, a what-if, a report) then needs
neither PyTorch nor a capture. Only commands keep: what runs in somebody's own process may have
changed PyTorch in ways that nobody sees. What is in doubt is captured again.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from gpuscope.kept.files import File
    from gpuscope.program.models.settings import WorkloadOptions

__all__ = ["CACHE", "KeptProgram", "Store", "is_off", "programs"]


CACHE = "GPUSCOPE_CACHE"
"""Environment variable: the folder of what is kept, or "off"."""

T = TypeVar("T")

_Form = tuple[str, list[Any], bytes]
"""A file: the workload's name, the sources of its capture, the program or figures."""


def is_off() -> bool:
    """Whether nothing is to be kept."""
    return os.environ.get(CACHE, "").strip().lower() in ("off", "0", "no", "none", "false")


@dataclass(frozen=True, slots=True)
class _Waiting:
    """What was captured in this process, to be written when there is time."""

    value: Any
    name: str
    again: Callable[[str | None], str | None]
    packed: Callable[[Any], bytes]


class Store:
    """What is kept, as one process sees it."""

    def __init__(self) -> None:
        self._began_ns = time.time_ns()
        # Whoever has imported PyTorch before us may have changed its defaults.
        self._open = "torch" not in sys.modules and not is_off()
        self._environment, self._path = dict(os.environ), tuple(sys.path)
        self._waiting: dict[str, _Waiting] = {}
        self._seen: dict[str, tuple[str, int, int, int]] = {}
        self._machine: str | None = None

    def captured(
        self,
        workload: str,
        options: WorkloadOptions,
        ranks: tuple[int, int],
        strict: bool,
        capture: Callable[[], Any],
        keep: bool = True,
    ) -> Any:
        """Return what is kept of a question, else what `capture` gives, to be kept.

        Args:
            workload, options, ranks, strict: as `question_of` takes them.
            capture: captures it; its errors are passed on.
            keep: whether what is captured is.
        """
        if not self._open:
            return capture()
        from gpuscope.kept import form

        ask = self._asking(workload, options, ranks, strict)
        return self._kept(ask, workload, capture, form.packed if keep else None, form.unpacked)

    def figures(
        self,
        workload: str,
        options: WorkloadOptions,
        ranks: tuple[int, int],
        about: Mapping[str, Any],
        kind: type[T],
        make: Callable[[], T],
    ) -> T:
        """Return figures that follow from a program: those that are kept, else what `make` gives.

        Args:
            workload, options, ranks: of the program, as `question_of` takes them.
            about: what else decides them, as plain values.
            kind: what they are: a dataclass of numbers, texts, and tuples and mappings of these.
            make: makes them; its errors are passed on.
        """
        if not self._open:
            return make()
        import msgspec

        def read(data: bytes) -> T:
            return msgspec.msgpack.decode(data, type=kind)

        def packed(value: T) -> bytes:
            return msgspec.msgpack.encode(value, enc_hook=_number)

        ask = self._asking(workload, options, ranks, False, {"kind": kind.__name__, **about})
        found: T = self._kept(ask, f"{workload} (figures)", make, packed, read)
        return found

    def _asking(self, *asked: Any) -> Callable[[str | None], str | None]:
        """What gives the question, on a machine that was looked at (None: again)."""
        from gpuscope.kept.question import Surroundings, question_of

        workload, options, ranks, strict, *about = asked
        around = Surroundings(self._environment, self._path)
        given = (*about, None)[0]
        return lambda machine: question_of(workload, options, ranks, strict, around, given, machine)

    def _machine_now(self) -> str | None:
        """What can be imported and our own files, as they are; None where nobody can tell."""
        from gpuscope.kept.question import Surroundings, machine_of

        try:
            return machine_of(Surroundings(self._environment, self._path))
        except OSError:
            return None

    def _kept(
        self,
        ask: Callable[[str | None], str | None],
        name: str,
        make: Callable[[], Any],
        packed: Callable[[Any], bytes] | None,
        unpacked: Callable[[bytes], Any],
    ) -> Any:
        self._machine = self._machine or self._machine_now()
        question = self._machine and ask(self._machine)
        if not question:
            return make()
        if question in self._waiting:
            return self._waiting[question].value
        found = self._found(question, unpacked)
        if found is None:
            found = make()
            if packed is None:
                return found
            self._waiting[question] = _Waiting(found, name, ask, packed)
        return found

    def _found(self, question: str, unpacked: Callable[[bytes], Any]) -> Any:
        """What is kept of a question, None where it is not, or may have changed."""
        from gpuscope.kept import files

        data = files.read(question)
        return None if data is None else opened(data, unpacked, self._seen)

    def write(self) -> None:
        """Write what was captured; what cannot be kept is left."""
        if not self._waiting:
            return
        import msgspec

        from gpuscope.kept import files
        from gpuscope.kept.form import NotKeptError
        from gpuscope.kept.sources import as_they_are

        sources = as_they_are(self._began_ns)
        if sources is not None:  # figures may follow from a program that was kept
            sources = list(dict.fromkeys((*sources, *self._seen.values())))
        machine = self._machine_now()
        for question, waiting in self._waiting.items():
            # What was changed while it was captured may be in it or not.
            if None in (sources, machine) or waiting.again(machine) != question:
                continue
            try:
                data = waiting.packed(waiting.value)
            except NotKeptError:
                continue
            files.write(question, msgspec.msgpack.encode([waiting.name, sources, data]))
        self._waiting.clear()


def _number(value: object) -> float:
    """One of NumPy's as Python has it."""
    from gpuscope.kept.form import NotKeptError

    if isinstance(value, float):
        return float(value)
    raise NotKeptError(type(value).__name__)


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


def opened(
    data: bytes,
    unpacked: Callable[[bytes], Any] | None = None,
    seen: dict[str, tuple[str, int, int, int]] | None = None,
) -> Any:
    """What a file holds, None where its sources have changed, or it is none of ours.

    Args:
        data: of the file.
        unpacked: makes what is asked for of the bytes; None: a program.
        seen: files that were looked at in this process already, which is added to.
    """
    import msgspec

    from gpuscope.kept import form
    from gpuscope.kept.sources import unchanged

    try:
        _, sources, held = msgspec.msgpack.decode(data, type=_Form)
        if not unchanged(sources, seen):
            return None
        return (unpacked or form.unpacked)(held)
    except (msgspec.MsgspecError, LookupError, TypeError, ValueError, RecursionError):
        return None
