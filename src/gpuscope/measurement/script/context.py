"""`gs.profile`: record some steps of a notebook or of your own program."""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import TracebackType

from gpuscope.errors import WorkloadError
from gpuscope.measurement.script.session import Session, Settings
from gpuscope.run import Run


class profile:  # noqa: N801 - used like a function
    """Record the steps that run inside a `with` block.

    >>> with gs.profile(steps=3) as p:
    ...     for batch in data:
    ...         train(batch)              # steps are found by themselves;
    ...         p.step()                  # or say where each ends
    >>> p.run.step_time_s
    """

    def __init__(
        self, steps: int = 3, *, skip: int = 2, name: str = "profile", stacks: bool = False
    ) -> None:
        """Prepare.

        Args:
            steps: how many to record.
            skip: how many to let pass first.
            name: of the run.
            stacks: also record Python stacks (slow, large).
        """
        self._session = Session(Settings(steps=steps, skip=skip, name=name, stacks=stacks))
        self._run: Run | None = None

    def __enter__(self) -> profile:
        import torch  # noqa: F401 - the hooks need it

        self._session.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._session.stop()

    def step(self) -> None:
        """Say that a step has ended; after the first time, only this counts."""
        self._session.step()

    @property
    def run(self) -> Run:
        """What was recorded, as a `Run`.

        Raises:
            WorkloadError: no step was recorded; says why.
        """
        nothing = self._session.why_nothing()
        if nothing is not None:
            raise WorkloadError(nothing[0], "", nothing[1])
        if self._run is None:
            with tempfile.TemporaryDirectory(prefix="gpuscope-") as folder:
                path = Path(folder) / "trace.json"
                self._session.export(path)
                self._run = self._session.run_of(path)
        return self._run
