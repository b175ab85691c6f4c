"""Every error that gpuscope raises on purpose.

    GpuscopeError
    ├── UnknownNameError      a device, model, dtype, task or option that does not exist
    ├── InvalidValueError     a value that cannot be (a negative size, a cluster of 0 devices)
    ├── CatalogueError        a catalogue file that does not validate
    ├── WorkloadError         the user's `build` failed, or did not return a step
    │   └── CaptureError      the step cannot be captured (unsupported operator under --strict)
    ├── UnsupportedError      the device cannot do what is asked (fp8 on an A100)
    ├── HangError             ranks of a job that would wait for each other for ever
    ├── DoesNotFitError       the workload needs more memory than the device has (--must-fit)
    │   └── OverLimitError    nothing keeps every limit that was asked for
    ├── InputFileError        a file that is missing, unreadable, cut off or not what it says
    └── MissingPackageError   an optional package is needed; says how to install it

Each error carries three short sentences: what happened, why, and what to type next. The
command line prints them without a traceback and exits with `exit_code`.
"""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Iterable

from gpuscope.document.text import Text


class GpuscopeError(Exception):
    """Base of all errors raised on purpose.

    Args:
        what: what happened, one sentence.
        why: the reason, or "" where `what` says it all.
        next_step: what to type or change next, or "".
    """

    exit_code: int = 2

    def __init__(self, what: str, why: str = "", next_step: str = "") -> None:
        self.what = what
        self.why = why
        self.next_step = next_step
        super().__init__(" ".join(part for part in (what, why, next_step) if part))


class UnknownNameError(GpuscopeError):
    """A name that is in no catalogue; lists the near ones.

    Args:
        kind: what the name stands for ("device", "model", "dtype", ...).
        name: what the user wrote.
        known: all valid names.
        next_step: a command that lists the valid names.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str], next_step: str = "") -> None:
        self.kind = kind
        self.name = name
        known_names = sorted(set(known))
        self.near = tuple(difflib.get_close_matches(name.lower(), known_names, n=5, cutoff=0.5))
        if not self.near:
            self.near = tuple(n for n in known_names if name and name.lower() in n)[:5]
        if self.near:
            why: str = Text("Did you mean: {near}?", near=", ".join(self.near))
        elif len(known_names) <= 12:
            why = Text("Known: {names}.", names=", ".join(known_names))
        else:
            why = ""
        super().__init__(Text("Unknown {kind} '{name}'.", kind=kind, name=name), why, next_step)


class InvalidValueError(GpuscopeError):
    """A value that has a known name but cannot be."""


class CatalogueError(GpuscopeError):
    """A catalogue file that does not validate; names the file and the field."""


class WorkloadError(GpuscopeError):
    """The user's `build` raised, or did not return a callable step."""


class NoStepError(WorkloadError):
    """A script ended before a step of it was found."""


class CaptureError(WorkloadError):
    """The step runs, but cannot be captured."""


class RefusedError(BaseException):
    """What a script sees where it would leave something behind; no `except Exception` catches it.

    Args:
        error: the same for the reader.
    """

    def __init__(self, error: WorkloadError) -> None:
        self.error = error
        super().__init__(str(error))


class UnsupportedError(GpuscopeError):
    """The device cannot do what the workload asks."""


class DoesNotFitError(GpuscopeError):
    """The workload needs more memory than the device has (raised under --must-fit only)."""

    exit_code = 3


class OverLimitError(DoesNotFitError):
    """Nothing keeps every limit that was asked for."""


class HangError(GpuscopeError):
    """Ranks of a job make communication calls that never meet: in real life they hang.

    Args:
        what: which ranks, and where they part.
        why: what each of them calls, with the user's line.
        next_step: what to change.
        waiting: (rank, what it calls or waits for) of each rank that matters.
    """

    def __init__(
        self,
        what: str,
        why: str = "",
        next_step: str = "",
        waiting: tuple[tuple[int, str], ...] = (),
    ) -> None:
        self.waiting = waiting
        super().__init__(what, why, next_step)


UPDATE = Text("Update gpuscope, the way you installed it.")
"""What to do about a file of a newer version; no package index has gpuscope."""


class InputFileError(GpuscopeError):
    """A file that is missing, unreadable, cut off, or not what it says."""


class MissingPackageError(GpuscopeError):
    """An optional package is not installed.

    Args:
        package: its name on the package index.
        needed_for: what the user asked for.
        extra: the gpuscope extra that brings it; None for what is not ours to name.
    """

    def __init__(self, package: str, needed_for: str, extra: str | None) -> None:
        if extra is None:
            how = Text("Install it, or put the folder that holds it in PYTHONPATH.")
        else:
            how = Text('Type: pip install "gpuscope[{extra}]"', extra=extra)
        super().__init__(
            Text(
                "{needed_for} needs the package '{package}', which is not installed.",
                needed_for=needed_for,
                package=package,
            ),
            "",
            how,
        )


def require_package(package: str, needed_for: str, extra: str) -> None:
    """Raise unless a package is installed; does not import it.

    Args:
        package, needed_for, extra: as `MissingPackageError` takes them.

    Raises:
        MissingPackageError: it is not.
    """
    if importlib.util.find_spec(package) is None:
        raise MissingPackageError(package, needed_for, extra)
