"""Loaders that begin again, and whose workers end in time.

A step that is measured runs more often than its data may last: the faster it is, the sooner its
`DataLoader` runs out. Where the user's code asks one for its next batch and does not expect an end,
the loader begins again and the step is called once more. Loops over a loader, code that catches
`StopIteration` itself, and iterators that are not of a `DataLoader` are left as they are. How long
the code waits for its loaders is known besides.

A script that is paused between its steps may end before it was timed long enough. What is known
then is how often its steps came to the end of a loader; run once more, the last of these passes
begins again as often as needed, and what follows it is never reached.
"""

from __future__ import annotations

import atexit
import functools
import gc
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from gpuscope.document.text import Text, plural

__all__ = ["Epochs", "ran_out"]

Step = Callable[[], object]


def ran_out(batches: int) -> Text:
    """What the user is told of each of `Epochs.lengths`."""
    return plural(
        "The loader ran out after {count} batch and began again.",
        "The loader ran out after {count} batches and began again.",
        batches,
    )


@dataclass(slots=True, eq=False)
class _Reading:
    """One iterator of a loader, as the user holds it.

    Attributes:
        loader: makes its successors; no reference to the iterator leads from it.
        successor: is read in its place after it ran out; None before, and where it was reset.
    """

    loader: Any
    successor: Any = None

    def begin_again(self, iterator: Any) -> None:
        """Read the loader from its begin, as `iter(loader)` would."""
        self.successor = None  # its workers, if it has any, end before others start
        if iterator._persistent_workers and iterator._num_workers:
            iterator._reset(self.loader)
        else:
            self.successor = self.loader._get_iterator()


_readings: WeakKeyDictionary[Any, _Reading] = WeakKeyDictionary()
_watching: list[Epochs] = []
_left: WeakSet[Any] = WeakSet()
"""Iterators that somebody still holds, to be ended with the process."""


class Epochs:
    """Watches the loaders of a workload while it is active; a context manager.

    It must be active before the code makes its iterators: `iter(loader)`.
    """

    def __init__(self, steps: Callable[[], int] | None = None, last_pass: int = 0) -> None:
        """Prepare.

        Args:
            steps: of a script: how many it has taken until now.
            last_pass: the pass over a loader, with steps in it, that does not end; 0 for none.

        Attributes:
            passes: over loaders, with steps in them, that came to their end.
        """
        self._steps, self._last_pass = steps, last_pass
        self._steps_before: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self.passes = 0
        self._ended: list[tuple[StopIteration, Any]] = []
        self._made: WeakSet[Any] = WeakSet()
        self._lengths: dict[int, None] = {}
        self._in_step = False
        self._waited_s = 0.0

    @property
    def waited_s(self) -> float:
        """Seconds that loaders took until they gave a batch, all of them since `start`."""
        return self._waited_s

    @property
    def lengths(self) -> tuple[int, ...]:
        """Batches after which loaders ran out and began again; each number once."""
        return tuple(self._lengths)

    @property
    def notes(self) -> tuple[str, ...]:
        """One sentence for each of `lengths`, in English."""
        return tuple(ran_out(n) for n in self.lengths)

    def __enter__(self) -> Epochs:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Watch from now on."""
        _watching.append(self)
        _stand_in()

    def close(self) -> None:
        """Watch no more: loaders end as they always do; workers that nobody needs are ended.

        Iterators that the user's code still holds go on; their workers end with the process.
        """
        _watching[:] = [watch for watch in _watching if watch is not self]
        _step_aside()
        running = _with_workers(self._made)
        if running:
            # What a build imports for the first time may leave a cycle of frames, its own among
            # them (torch.optim imports torch._dynamo so), and these hold the step. The iterators
            # are held meanwhile: collecting would finalize their queues before them, and what
            # tells their workers to end would not be sent.
            gc.collect()
            for each in _held_nowhere_else(running):
                each._shutdown_workers()
        left = _with_workers(self._made)
        if left:
            _left.update(left)
            atexit.unregister(_end_workers)
            atexit.register(_end_workers)

    # -- steps -------------------------------------------------------------------------------------

    def restarting(self, step: Step) -> Step:
        """The step, called once more where a loader ran out under it.

        Args:
            step: the user's own; what records or repeats it (a graph) goes around the result.
        """

        def restarted() -> object:
            begun: list[Any] = []
            outer, self._in_step = self._in_step, True
            try:
                while True:
                    try:
                        return step()
                    except StopIteration as end:
                        iterator = self._cause(end)
                        if iterator is None or any(iterator is each for each in begun):
                            raise
                        if _capturing():  # what was recorded until here would be recorded twice
                            raise
                        self._begin_again(iterator)
                        begun.append(iterator)
                    finally:
                        self._ended.clear()
            finally:
                self._in_step = outer

        # No `__dict__`: what a compiler has written there is about the step.
        return functools.update_wrapper(restarted, step, updated=())

    def _begin_again(self, iterator: Any) -> None:
        reading = _readings[iterator]
        read = iterator if reading.successor is None else reading.successor
        self._lengths[int(read._num_yielded)] = None
        reading.begin_again(iterator)

    def _cause(self, error: BaseException | None) -> Any:
        """The iterator whose end this is, or was raised about; None where it is none of ours."""
        while error is not None:
            for end, iterator in self._ended:
                if end is error:
                    return iterator
            error = error.__context__
        return None

    # -- what the stand-ins tell -------------------------------------------------------------------

    def made(self, iterator: Any) -> None:
        """A loader was asked for an iterator."""
        self._made.add(iterator)
        if self._steps is not None:
            self._steps_before[iterator] = self._steps()

    def waited(self, seconds: float) -> None:
        """A loader was asked for a batch, and took so long."""
        self._waited_s += seconds

    def goes_on(self, iterator: Any) -> bool:
        """An iterator has no more batches: whether it begins again, since this pass must not end.

        One in which no step was taken (a validation's) ends as it always does.
        """
        if self._steps is None or self._steps() == self._steps_before.get(iterator):
            return False
        self.passes += 1
        if not 0 < self._last_pass <= self.passes:
            return False
        self._begin_again(iterator)
        return True

    def ended(self, iterator: Any, end: StopIteration) -> None:
        """An iterator has no more batches."""
        if self._in_step:  # what the exception holds must not outlive the step
            self._ended.append((end, iterator))


def _capturing() -> bool:
    import torch

    cuda: Any = torch.cuda  # untyped in torch
    return bool(cuda.is_initialized() and cuda.is_current_stream_capturing())


# -- the iterators of PyTorch's loaders ------------------------------------------------------------


def _stand_in() -> None:
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    base: Any = _BaseDataLoaderIter
    begin, advance = base.__init__, base.__next__
    if hasattr(advance, "__gpuscope_original__"):
        return

    @functools.wraps(begin)
    def __init__(this: Any, loader: Any) -> None:  # noqa: N807 - stands in for it
        begin(this, loader)
        _readings[this] = _Reading(_without_iterator(loader))
        for watch in _watching:
            watch.made(this)

    @functools.wraps(advance)
    def __next__(this: Any) -> Any:  # noqa: N807 - stands in for it
        reading = _readings.get(this)
        successor = None if reading is None else reading.successor
        begun = time.perf_counter()
        try:
            return advance(this if successor is None else successor)
        except StopIteration as end:
            if reading is not None:
                if any(watch.goes_on(this) for watch in _watching):
                    return advance(reading.successor or this)
                for watch in _watching:
                    watch.ended(this, end)
            raise
        finally:
            waited_s = time.perf_counter() - begun
            for watch in _watching:
                watch.waited(waited_s)

    for stand_in, original in ((__init__, begin), (__next__, advance)):
        marked: Any = stand_in
        marked.__gpuscope_original__ = original
        # Compilers leave torch's own two alone, and must not look into these either.
        marked._torchdynamo_disable = True
    base.__init__, base.__next__ = __init__, __next__


def _step_aside() -> None:
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    base: Any = _BaseDataLoaderIter
    if _watching:
        return
    for name in ("__init__", "__next__"):
        original = getattr(getattr(base, name), "__gpuscope_original__", None)
        if original is not None:
            setattr(base, name, original)


def _without_iterator(loader: Any) -> Any:
    """The loader; of one that holds its iterator (persistent workers), a copy that does not.

    Else the two would hold each other, and the workers would not end when the user lets go of them.
    """
    if not (loader.persistent_workers and loader.num_workers):
        return loader
    copied = object.__new__(type(loader))
    copied.__dict__.update(loader.__dict__, _iterator=None)
    return copied


def _with_workers(iterators: WeakSet[Any]) -> list[Any]:
    """Those whose workers still run."""
    return [
        each
        for each in iterators
        if getattr(each, "_workers", None) and not getattr(each, "_shutdown", True)
    ]


def _held_nowhere_else(held: list[Any]) -> list[Any]:
    """Those that nothing but the list refers to."""
    alone = [*held, object()]  # the last one shows how many references are our own
    held.clear()
    counts = [sys.getrefcount(each) for each in alone]
    return [each for each, count in zip(alone[:-1], counts, strict=False) if count <= counts[-1]]


def _end_workers() -> None:
    """At the end of the process, before PyTorch waits for them.

    PyTorch 2.11 waits five seconds for each worker that nobody told to end; 2.13 tells them.
    """
    for each in _with_workers(_left):
        each._shutdown_workers()
