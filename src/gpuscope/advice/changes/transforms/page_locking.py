"""Page-locking of host memory that a program copies from again and again.

A tensor that is copied to the device a second time is locked where it lies
(`cudaHostRegister`), so that the code keeps its own tensor and what it writes there is what is
copied. What is copied only once is left: locking takes longer than one copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuscope.advice.changes.hooks.host_copies import STAGED_BYTES, HostCopy, is_pinned

__all__ = ["Pinning", "Sighted", "lock_pages"]

Lock = Callable[[Any], Callable[[], None] | None]

MOST_BYTES = 4 << 30
"""No more host memory is locked than this: other processes cannot have it."""


class Sighted:
    """Storages that were met before and still live."""

    def __init__(self) -> None:
        self._met: dict[int, Any] = {}

    def again(self, tensor: Any) -> bool:
        """Whether the memory behind the tensor was met before; it is met now."""
        from torch.multiprocessing.reductions import StorageWeakRef

        storage = tensor.untyped_storage()
        reference = StorageWeakRef(storage)  # type: ignore[no-untyped-call]
        known = self._met.get(reference.cdata)
        if known is not None and not known.expired():
            return True
        for key in [k for k, v in self._met.items() if v.expired()]:
            del self._met[key]
        self._met[reference.cdata] = reference
        return False


class Pinning:
    """Copies from memory that is locked at the second sight.

    Args:
        pretended: under a capture's fakes, where a stand-in is copied instead.
        lock: locks the memory of a storage and returns what undoes that; None where it cannot.
    """

    def __init__(self, pretended: bool, lock: Lock | None = None) -> None:
        self._pretended = pretended
        self._lock = lock_pages if lock is None else lock
        self._sighted = Sighted()
        self._held: dict[int, tuple[Any, Callable[[], None] | None]] = {}
        self._locked_bytes = 0

    def __call__(self, copy: HostCopy) -> Any:
        """Do a copy."""
        if copy.nbytes <= STAGED_BYTES:
            return copy.run()
        if not self._sighted.again(copy.tensor):
            return copy.run()
        return copy.run(self.locked(copy.tensor))

    def locked(self, tensor: Any) -> Any:
        """The tensor with its memory locked; under fakes a locked stand-in."""
        if self._pretended:
            return tensor.pin_memory()
        if not is_pinned(tensor):
            self._lock_once(tensor.untyped_storage())
        return tensor

    def _lock_once(self, storage: Any) -> None:
        key, size = storage.data_ptr(), storage.nbytes()
        if key in self._held or self._locked_bytes + size > MOST_BYTES:
            return
        # The storage is held, so that its memory is not given back while it is locked.
        self._held[key] = (storage, self._lock(storage))
        self._locked_bytes += size

    def close(self) -> None:
        """Unlock all of it."""
        held, self._held = self._held, {}
        self._locked_bytes = 0
        for _, unlock in held.values():
            if unlock is not None:
                unlock()


def lock_pages(storage: Any) -> Callable[[], None] | None:
    """Lock the memory of a storage; returns what unlocks it, None where the driver refuses."""
    import torch

    if not torch.cuda.is_available():
        return None
    answer: Any = torch.cuda.cudart  # untyped in torch
    runtime = answer()
    at, size = storage.data_ptr(), storage.nbytes()
    if int(runtime.cudaHostRegister(at, size, 0)) != 0:
        return None

    def unlock() -> None:
        torch.cuda.synchronize()  # no copy from it may be under way
        runtime.cudaHostUnregister(at)

    return unlock
