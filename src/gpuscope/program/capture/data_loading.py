"""`DataLoader` while capturing: batches are made in this process.

Worker processes would be forked out of the fake mode. Their work runs beside the step on a real
machine, so it is left out of the program; without workers the data set's own operators are part of
the step, as they are in a real run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _SingleProcessDataLoaderIter

from gpuscope.document.text import Text
from gpuscope.program.capture.patches import Patches

WORKERS = Text(
    "Batches of a DataLoader with workers are taken as ready when the step asks for them."
)


class _Prefetched:
    """Batches that worker processes have made: what it takes to make them is not recorded."""

    def __init__(self, make: Callable[[], Iterator[Any]], recorder: Any) -> None:
        self.make, self.batches = make, make()
        self.recorder = recorder

    def _reset(self, loader: DataLoader[Any], first_iter: bool = False) -> None:
        """Begin anew: asked of an iterator whose workers persist from one epoch to the next."""
        self.batches = self.make()

    def __iter__(self) -> _Prefetched:
        return self

    def __next__(self) -> Any:
        self.recorder.values.assume(WORKERS)
        recording, self.recorder.recording = self.recorder.recording, False
        try:
            with self.recorder.python.left_out():
                return next(self.batches)
        finally:
            self.recorder.recording = recording

    def __len__(self) -> int:
        return len(self.batches)  # type: ignore[arg-type]


def install(patch: Patches, recorder: Any) -> None:
    """Make loaders iterate in this process."""

    def iterator(self: DataLoader[Any]) -> Any:
        def here() -> Iterator[Any]:
            workers, timeout = self.num_workers, self.timeout
            self.num_workers, self.timeout = 0, 0
            try:
                return _SingleProcessDataLoaderIter(self)  # type: ignore[no-untyped-call]
            finally:
                self.num_workers, self.timeout = workers, timeout

        return _Prefetched(here, recorder) if self.num_workers else here()

    patch.set(DataLoader, "_get_iterator", iterator)
