"""Input that is copied ahead: on a stream of its own, while the step before it computes.

The code keeps its host tensors and asks for copies as before; where a copy was made ahead, it is
handed out instead. Two sorts of data are known ahead: batches of a `DataLoader` (their copy starts
when the loader gives them out, or one batch earlier where workers make them), and tensors that a
step copies every time. A tensor that was written to since is copied anew.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from gpuscope.advice.changes.hooks.host_copies import STAGED_BYTES, HostCopy
from gpuscope.advice.changes.transforms.page_locking import Pinning

__all__ = ["Prefetching"]

_LEARNING = 3
"""Batches after which tensors that were never asked for are no longer copied."""

Key = tuple[int, int, tuple[int, ...], tuple[int, ...]]


@dataclass
class _Twin:
    """A copy on the device that was made ahead.

    Attributes:
        storage: weak reference to the source's memory.
        version: of the source when the copy began.
        copied: on the device.
        done: event at the copy's end.
        leaf: place in its batch; None for a tensor that is copied every step.
    """

    storage: Any
    version: int
    copied: Any
    done: Any
    leaf: int | None = None


class Prefetching:
    """Hands out copies made ahead, and makes the next ones.

    Args:
        pretended: under a capture's fakes.
        to: `Tensor.to` as it is without this.
        pinning: locks tensors that are copied every step.
    """

    def __init__(self, pretended: bool, to: Callable[..., Any], pinning: Pinning) -> None:
        self._pretended = pretended
        self._to = to
        self._pinning = pinning
        self._stream: Any = None
        self._twins: dict[Key, _Twin] = {}
        self._candidates: dict[Key, tuple[Any, Any]] = {}
        self._begun: list[list[tuple[Key, _Twin]]] = []
        self._batches = 0
        self._asked: set[int] = set()
        self._given_up: set[Key] = set()
        self._renewed: set[Key] = set()

    # -- copies that the code asks for ---------------------------------------------------------

    def __call__(self, copy: HostCopy) -> Any:
        """Do a copy, or hand out what was copied ahead."""
        if copy.nbytes <= STAGED_BYTES:
            return copy.run()
        twin = self._taken(copy.tensor)
        if twin is None:
            copied = copy.run()
            self._note(copy)
            return copied
        if twin.leaf is None:
            self._start_again(copy)
        else:
            self._asked.add(twin.leaf)
        return self._handed(twin, copy)

    def step_ended(self) -> None:
        """Start copying what this step copied and what still lives; forget what nobody took."""
        for key in [k for k, t in self._twins.items() if t.leaf is None]:
            if key not in self._renewed:
                del self._twins[key]
                self._given_up.add(key)
        self._renewed.clear()
        candidates, self._candidates = self._candidates, {}
        for key, (reference, device) in candidates.items():
            tensor = reference()
            if tensor is not None and key not in self._given_up:
                self._start(tensor, device, None)

    def _taken(self, tensor: Any) -> _Twin | None:
        key = _key(tensor)
        twin = self._twins.pop(key, None)
        if twin is None or twin.storage.expired():
            return None
        if twin.version != _version(tensor):
            self._given_up.add(key)  # it is filled anew every step: there is nothing to copy ahead
            return None
        return twin

    def _note(self, copy: HostCopy) -> None:
        """Remember a copy, so that the next one may begin ahead of its step."""
        if _version(copy.tensor) is None or not copy.tensor.untyped_storage().resizable():
            return  # shared with NumPy or other processes: what is written there is not seen
        reference = weakref.ref(copy.tensor)
        self._candidates[_key(copy.tensor)] = (reference, copy.options.get("device", "cuda"))

    def _start_again(self, copy: HostCopy) -> None:
        self._start(copy.tensor, copy.options.get("device", "cuda"), None)
        self._renewed.add(_key(copy.tensor))

    def _handed(self, twin: _Twin, copy: HostCopy) -> Any:
        import torch

        current = torch.cuda.current_stream()
        current.wait_event(twin.done)
        twin.copied.record_stream(current)
        kept = ("device", "dtype", "memory_format")
        rest = {k: v for k, v in copy.options.items() if k in kept}
        return self._to(twin.copied, **rest) if rest else twin.copied

    # -- copies made ahead -----------------------------------------------------------------------

    def _start(self, tensor: Any, device: Any, leaf: int | None) -> None:
        import torch
        from torch.multiprocessing.reductions import StorageWeakRef

        version = _version(tensor)
        if version is None:
            return
        if self._stream is None:
            make: Any = torch.cuda.Stream  # untyped in torch
            self._stream = make()
        source = tensor
        if leaf is None:
            source = self._pinning.locked(tensor)
        with torch.cuda.stream(self._stream):
            copied = self._to(source, device, non_blocking=True)
            done = self._stream.record_event()
        storage = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
        self._twins[_key(tensor)] = _Twin(storage, version, copied, done, leaf)

    # -- batches -----------------------------------------------------------------------------------

    def batches(self, iterator: Iterator[Any]) -> Iterator[Any]:
        """A loader's iterator, whose batches are being copied when they are given out.

        Without workers no batch is made earlier than the code asks for it: the data set may draw
        random numbers in this process.
        """
        return _Ahead(iterator, self.begin_batch)

    def begin_batch(self, batch: Any) -> None:
        """Start copying the tensors of a batch."""
        import torch
        from torch.utils._pytree import tree_leaves

        begun: list[tuple[Key, _Twin]] = []
        for leaf, tensor in enumerate(tree_leaves(batch)):
            wanted = self._batches < _LEARNING or leaf in self._asked
            if not (wanted and isinstance(tensor, torch.Tensor)):
                continue
            if tensor.device.type != "cpu" or tensor.nbytes <= STAGED_BYTES:
                continue
            self._start(tensor, "cuda", leaf)
            key = _key(tensor)
            if key in self._twins:
                begun.append((key, self._twins[key]))
        self._batches += 1
        self._begun.append(begun)
        while len(self._begun) > 2:  # copies of batches that are over
            for key, twin in self._begun.pop(0):
                if self._twins.get(key) is twin:  # not of a new tensor at the old one's place
                    del self._twins[key]


class _Ahead:
    """An iterator whose batches begin to be copied early; otherwise as the one it holds."""

    _END = object()

    def __init__(self, iterator: Any, begin: Callable[[Any], None]) -> None:
        self._iterator = iterator
        self._begin = begin
        self._ahead = not type(iterator).__name__.startswith("_SingleProcess")
        self._next: Any = None

    def __iter__(self) -> _Ahead:
        return self

    def __next__(self) -> Any:
        batch, self._next = self._next, None
        if batch is None or batch is self._END:
            # Also after the end: the loader says it in its own words (and may begin again then,
            # see `gpuscope.measurement.epochs`).
            batch = next(self._iterator)
            self._begin(batch)
        if self._ahead:
            self._next = self._fetched()
        return batch

    def _fetched(self) -> Any:
        batch = next(self._iterator, self._END)
        if batch is not self._END:
            self._begin(batch)
        return batch

    def __len__(self) -> int:
        return len(self._iterator)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterator, name)


def _key(tensor: Any) -> Key:
    return (
        tensor.untyped_storage()._cdata,
        tensor.storage_offset(),
        tuple(tensor.shape),
        tuple(tensor.stride()),
    )


def _version(tensor: Any) -> int | None:
    """How often it was written to; None for an inference tensor, which does not say."""
    return None if tensor.is_inference() else int(tensor._version)
