"""`Work` objects: which operator each stands for, and who waits for it."""

from __future__ import annotations

from typing import Any

from gpuscope.program.capture.cuda import current_stream
from gpuscope.program.capture.patches import Patches
from gpuscope.program.capture.streams import Queue


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


def made(number: int) -> Any:
    """A work that stands for operator `number` of the capture's clock."""
    from torch._C._distributed_c10d import FakeWork

    work = FakeWork()
    work.seq_id = number
    return work


class Works:
    """Where the operators run that a `Work` or a tensor stands for."""

    def __init__(self, order: Any) -> None:
        self._order = order
        self._queues: dict[int, Queue] = {}
        self._tensors: dict[int, int] = {}
        self._parts: dict[int, list[int]] = {}

    def issued(self, number: int, queue: Queue, storages: list[int]) -> None:
        """A collective was issued; it writes these storages."""
        self._queues[number] = queue
        for storage in storages:
            self._tensors[storage] = number

    def joined(self, works: list[Any]) -> Any:
        """One work that stands for several."""
        self._parts[-1 - len(self._parts)] = [work.seq_id for work in works]
        return made(-len(self._parts))

    def wait(self, number: int) -> None:
        """The current stream waits for a collective, or for several joined ones."""
        for part in self._parts.get(number, ()):
            self.wait(part)
        queue = self._queues.get(number)
        if queue is not None:
            self._order.wait(current_stream().stream_id, {queue: number})

    def writer(self, storage: int) -> int | None:
        """The collective that wrote a storage last."""
        return self._tensors.get(storage)
