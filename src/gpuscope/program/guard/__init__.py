"""Scripts and builds leave nothing behind: they run in processes apart, on a copy of the files.

Two ways, the first that the machine allows:

- `overlay`: the process has mounts and a network of its own (`overlay.py`); what it writes and
  deletes is done, and vanishes with it.
- `hook`: what goes through Python's own functions is done in a scratch folder (`redirection.py`),
  and what cannot be is refused (`refusing.py`); where Linux has Landlock, it refuses the rest
  (`landlock.py`).

Both keep honest code from changing anything. Neither holds against code that means harm.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from gpuscope.document.text import Text
from gpuscope.errors import RefusedError

__all__ = ["NO_OVERLAY", "Held", "enter", "private"]

NO_OVERLAY = "GPUSCOPE_NO_OVERLAY"
"""Environment variable: there is no overlay, where it stands in someone's way."""

private = threading.Event()
"""Set in a process that leaves nothing behind: what it writes is its own."""


@dataclass(frozen=True, slots=True)
class Held:
    """Which of the two held.

    Attributes:
        way: which.
        kernel: the kernel itself refuses what is left.
        why: why there is no overlay, the kernel's words; "" with one.
    """

    way: Literal["overlay", "hook"]
    kernel: bool = True
    why: str = ""

    @property
    def note(self) -> Text:
        """What a reader of the result should know."""
        if self.way == "overlay":
            return Text(
                "Your code ran on a private copy of all files, without a network: what it wrote "
                "or deleted is gone."
            )
        if self.kernel:
            return Text(
                "No private copy of the files could be made here ({why}): what your code wrote "
                "went to a scratch folder that is gone, and the kernel refused it the rest.",
                why=self.why,
            )
        return Text(
            "No private copy of the files could be made here ({why}): what your code wrote by "
            "Python's own functions went to a scratch folder that is gone; what other libraries "
            "write by themselves was not seen.",
            why=self.why,
        )


def enter(
    script: str,
    scratch: str,
    real: Sequence[str] = (),
    *,
    alone: bool = True,
    beside: int | None = None,
    network: bool = False,
    refuse: Callable[[RefusedError], None] | None = None,
) -> Held:
    """Have this process, and those that it starts, leave nothing behind.

    To be called in a process of one thread, before anything of the user's runs. There is no way
    back.

    Args:
        script: to name in errors.
        scratch: an empty folder for the second way; the caller removes it.
        real: folders and files that may be written to.
        alone: it works with no process that it did not start; else the kernel refuses it nothing,
            which could part it from the others.
        beside: the process whose private copy it shares; None makes one, 0 does without.
        network: leave connections to the machine's own rules; other machines are refused by the
            second way all the same.
        refuse: told of each refusal before it is raised.
    """
    private.set()
    from gpuscope.program.guard import redirection, refusing
    from gpuscope.program.guard.landlock import keep_files, keep_signals
    from gpuscope.program.guard.shadow import Shadow

    why = NO_OVERLAY if os.environ.get(NO_OVERLAY) else ""
    if beside != 0 and not why:
        from gpuscope.program.guard.overlay import enter_overlay, join_overlay

        try:
            join_overlay(beside) if beside else enter_overlay(real, network=network)
        except (OSError, AttributeError, ImportError) as error:  # a system that is not Linux
            why = getattr(error, "strerror", None) or str(error)
        else:
            kept = alone and keep_signals()
            if network or not kept:
                refusing.begin(script, refuse, signals=not kept, connections=network)
            return Held("overlay")
    shadow = Shadow(scratch, real)
    redirection.install(shadow)
    kernel = alone and keep_files((shadow.folder, *shadow.real), network=network)
    refusing.begin(script, refuse, writes=shadow, programs=not kernel)
    return Held("hook", kernel, why or "-")
