"""`Work` objects: which operator each stands for, and who waits for it."""

from __future__ import annotations

import weakref
from typing import Any

from gpuscope.program.capture.cuda import current_stream
from gpuscope.program.capture.patches import Patches
from gpuscope.program.capture.streams import Points, Queue


def install(patch: Patches, recorder: Any) -> None:
    """Make waiting for a `Work` wait for its operator."""
    from torch._C._distributed_c10d import FakeWork

    def waiting(name: str) -> Any:
        original = getattr(FakeWork, name)

        def wait(self: Any, *args: Any, **kwargs: Any) -> Any:
            recorder.works.wait(self.seq_id)
            return original(self, *args, **kwargs)

        return wait

    for name in ("wait", "synchronize", "block_current_stream"):
        if hasattr(FakeWork, name):
            patch.set(FakeWork, name, waiting(name))
    works = recorder.works
    for name in ("get_future", "getFuture"):
        patch.set(FakeWork, name, lambda self: _future(works, self.seq_id), only_if_present=True)
    for name in ("is_completed", "is_success"):
        patch.set(FakeWork, name, lambda self: True, only_if_present=True)
    patch.set(FakeWork, "result", lambda self: works.outputs(self.seq_id))
    for name in ("_source_rank", "source_rank"):
        patch.set(FakeWork, name, lambda self: works.source, only_if_present=True)


def _future(works: Works, number: int) -> Any:
    """A future that is done; who waits for it waits for the operator.

    What continues it (`then`) runs on a stream of its own that waits for the operator, as CUDA
    futures do; who waits for the continuation waits for that stream.
    """
    import torch

    class Future(torch.futures.Future):  # type: ignore[type-arg]
        points: Points

        def wait(self) -> Any:
            works.wait_for(self.points)
            return super().wait()

        def then(self, callback: Any) -> Any:
            stream = works.callbacks()
            with torch.cuda.stream(stream):
                works.wait_for(self.points)
                try:
                    value = callback(self)
                except Exception as error:
                    return self._failed(error)
            return finished(value, works.marked(stream))

        def _failed(self, error: Exception) -> Any:
            child = Future()
            child.points = {}
            child.set_exception(error)  # type: ignore[arg-type]
            return child

    def finished(value: Any, points: Points) -> Any:
        future = Future()
        future.points = points
        future.set_result(value)
        return future

    return finished(works.outputs(number), works.points(number))


def made(number: int) -> Any:
    """A work that stands for operator `number` of the capture's clock."""
    from torch._C._distributed_c10d import FakeWork

    work = FakeWork()
    work.seq_id = number
    return work


class Works:
    """Where the operators run that a `Work` or a tensor stands for.

    Attributes:
        source: group rank that the last receive from anybody is taken to be answered by.
    """

    def __init__(self, order: Any) -> None:
        self._order = order
        self._queues: dict[int, Queue] = {}
        self._tensors: dict[int, int] = {}
        self._parts: dict[int, list[int]] = {}
        self._outputs: dict[int, list[Any]] = {}
        self._callbacks: Any = None
        self.source = 0

    def issued(self, number: int, queue: Queue, storages: list[int], outputs: list[Any]) -> None:
        """A collective was issued; it writes these tensors, in these storages."""
        self._queues[number] = queue
        self._outputs[number] = [weakref.ref(tensor) for tensor in outputs]
        for storage in storages:
            self._tensors[storage] = number

    def outputs(self, number: int) -> list[Any]:
        """The tensors that a collective writes, as far as somebody still holds them."""
        found = (ref() for ref in self._outputs.get(number, ()))
        return [tensor for tensor in found if tensor is not None]

    def joined(self, works: list[Any]) -> Any:
        """One work that stands for several."""
        self._parts[-1 - len(self._parts)] = [work.seq_id for work in works]
        return made(-len(self._parts))

    def wait(self, number: int) -> None:
        """The current stream waits for a collective, or for several joined ones."""
        self.wait_for(self.points(number))

    def wait_for(self, points: Points) -> None:
        """The current stream waits for operators."""
        self._order.wait(current_stream().stream_id, points)

    def points(self, number: int) -> Points:
        """What to wait for, for a collective or for several joined ones."""
        found: Points = {}
        for part in self._parts.get(number, ()):
            for queue, last in self.points(part).items():
                found[queue] = max(last, found.get(queue, last))
        if number in self._queues:
            found[self._queues[number]] = number
        return found

    def marked(self, stream: Any) -> Points:
        """All that a stream was given."""
        marked: Points = self._order.mark(stream.stream_id)
        return marked

    def callbacks(self) -> Any:
        """The stream on which futures are continued."""
        if self._callbacks is None:
            import torch

            self._callbacks = torch.cuda.Stream()
        return self._callbacks

    def writer(self, storage: int) -> int | None:
        """The collective that wrote a storage last."""
        return self._tensors.get(storage)
