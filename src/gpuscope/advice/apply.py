"""`gs.apply`: make changes while the user's own code runs.

The same machinery that predicts and tries changes; what was measured by `optimize` is what runs.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from gpuscope.advice.results import Ladder
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["apply"]

Build = Callable[[], Callable[[], object]]


class apply:  # noqa: N801 - used like a function
    """Changes at work: a decorator of `build`, a `with` block, or a line at the top of a script.

    >>> @gs.apply("tf32", "fused-optimizer")
    ... def build(): ...

    >>> with gs.apply("ladder.json"):
    ...     train()

    >>> gs.apply("tf32").start()

    Attributes:
        names: of the changes, each once.
    """

    def __init__(self, *plan: str | Path | Ladder) -> None:
        """Prepare; nothing happens yet, and torch is not imported.

        Args:
            plan: names of changes, a `Ladder` (what it kept), or the file or folder that
                `optimize` wrote one to.

        Raises:
            UnknownNameError: a change is not known.
            InvalidValueError: two changes cannot go together, or nothing is said.
            InputFileError: no such ladder.
        """
        from gpuscope.advice import registry

        if not plan:
            raise InvalidValueError(
                Text("No change is named."), "", Text('Write for example: gs.apply("tf32")')
            )
        self._changes = registry.plan(name for part in plan for name in _names(part))
        self.names = tuple(change.name for change in self._changes)
        self._live: Live | None = None

    def __call__(self, build: Build) -> Build:
        """A build with the changes made; they end when its step is no longer used."""

        @functools.wraps(build)
        def changed(*args: Any, **kwargs: Any) -> Callable[[], object]:
            from gpuscope.advice.changes.hooks.live import Live

            live = Live(self._changes)
            step = live.wrap(functools.partial(build, *args, **kwargs))()
            with suppress(TypeError):  # what cannot be watched keeps its changes
                weakref.finalize(step, live.close)
            return step

        return changed

    def start(self) -> apply:
        """Begin, for the rest of the program or until `close`."""
        if self._live is None:
            from gpuscope.advice.changes.hooks.live import Live

            self._live = Live(self._changes)
            self._live.start()
        return self

    def close(self) -> None:
        """Undo everything; models that were edited stay as they are."""
        live, self._live = self._live, None
        if live is not None:
            live.close()

    def __enter__(self) -> apply:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"gs.apply({', '.join(repr(name) for name in self.names)})"


def _names(part: str | Path | Ladder) -> tuple[str, ...]:
    """Names of changes that a part of a plan stands for."""
    if isinstance(part, Ladder):
        return part.best
    if isinstance(part, str) and not part.endswith(".json") and "/" not in part:
        return (part,)
    if isinstance(part, (str, Path)):
        from gpuscope.advice.trial.ladder_store import read_ladder

        return read_ladder(part).best
    raise InvalidValueError(
        Text("gs.apply cannot take a {name}.", name=type(part).__name__),
        "",
        Text("Give names of changes, a ladder, or the file of one."),
    )
