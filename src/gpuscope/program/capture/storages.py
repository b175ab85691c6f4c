"""Memory by its life: every device storage, when it was born, when it died, what it held."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from gpuscope.program.capture.fakes import on_device
from gpuscope.program.capture.patches import Patches
from gpuscope.program.types import Category, Storage


def held(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor that holds the memory: what is inside of a DTensor or the like."""
    while True:
        inner = getattr(tensor, "_local_tensor", None)
        inner = getattr(tensor, "elem", None) if inner is None else inner
        if not isinstance(inner, torch.Tensor):
            return tensor
        tensor = inner


@dataclass
class Life:
    """One storage while it is being watched (mutable; becomes a `Storage`)."""

    id: int
    nbytes: int
    born: int
    died: int | None
    module: str
    label: str
    phase: str
    category: Category | None = None
    device: bool = True
    pinned: bool = False
    dims: int = 0
    floating: bool = True
    named: bool = False
    counted: bool = False


@dataclass
class Held:
    """Bytes of device memory as the code may ask for them while it runs.

    Attributes:
        now_bytes: allocated now, each storage rounded up as the allocator rounds.
        most_bytes: the most since the last reset.
        ever_bytes: the most ever.
    """

    now_bytes: int = 0
    most_bytes: int = 0
    ever_bytes: int = 0

    @property
    def reserved_bytes(self) -> int:
        """The most ever, in whole segments."""
        return in_segments(self.ever_bytes)

    def add(self, nbytes: int) -> None:
        """A storage comes, or goes (negative)."""
        rounded = -(-abs(nbytes) // _BLOCK_BYTES) * _BLOCK_BYTES
        self.now_bytes += rounded if nbytes > 0 else -rounded
        self.most_bytes = max(self.most_bytes, self.now_bytes)
        self.ever_bytes = max(self.ever_bytes, self.now_bytes)


_BLOCK_BYTES, _SEGMENT_BYTES = 512, 2 << 20
"""Granularity of PyTorch's allocator, see `gpuscope.timeline.allocator`."""


def in_segments(nbytes: int) -> int:
    """Bytes in whole segments."""
    return -(-nbytes // _SEGMENT_BYTES) * _SEGMENT_BYTES


class StorageTracker:
    """Watches storages by weak reference; `clock` gives the index of the next operator."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        self.held = Held()
        self.lives: list[Life] = []
        self._by_key: dict[int, int] = {}
        self._refs: dict[int, Any] = {}
        self._addresses: dict[int, int] = {}
        self._next_address = _SEGMENT_BYTES

    def id_of(self, tensor: torch.Tensor) -> int:
        """Identity of the storage behind `tensor`; -1 if it was never seen."""
        if tensor.layout is not torch.strided:
            return -1  # of several storages
        return self._by_key.get(held(tensor).untyped_storage()._cdata, -1)

    def see(self, tensor: torch.Tensor, device: bool, module: str, label: str, phase: str) -> int:
        """Identity of the storage behind `tensor`, watched from now on."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        known = self._by_key.get(key)
        if known is not None:
            return known
        number = len(self.lives)
        life = Life(
            number,
            storage.nbytes(),
            self.clock(),
            None,
            module,
            label,
            phase,
            device=device,
            counted=device,
            dims=tensor.dim(),
            floating=tensor.is_floating_point(),
        )
        self.lives.append(life)
        if device:
            self.held.add(life.nbytes)
        self._by_key[key] = number
        self._refs[key] = weakref.ref(storage, partial(self._gone_ref, key))
        return number

    def address_of(self, storage: Any) -> int:
        """Where a storage would lie: no two that live overlap. 0 for one that was never seen."""
        number = self._by_key.get(storage._cdata)
        if number is None or not storage.nbytes():
            return 0
        if number not in self._addresses:
            self._addresses[number] = self._next_address
            self._next_address += -(-storage.nbytes() // _BLOCK_BYTES) * _BLOCK_BYTES
        return self._addresses[number]

    def resized(self, storage: Any) -> None:
        """A storage was given another size: to the allocator one is freed and one is made.

        FSDP2 frees an unsharded parameter by making its storage empty, so that the tensor stays.
        """
        number = self._by_key.get(storage._cdata)
        if number is None or self.lives[number].nbytes == storage.nbytes():
            return
        life, key = self.lives[number], storage._cdata
        life.died = self.clock()
        again = replace(
            life, id=len(self.lives), nbytes=storage.nbytes(), born=self.clock(), died=None
        )
        self.lives.append(again)
        self.held.add(again.nbytes - life.nbytes if life.counted else 0)
        self._by_key[key] = again.id

    def _gone_ref(self, key: int, _: object) -> None:
        self._gone(key)

    def _gone(self, key: int) -> None:
        number = self._by_key.pop(key, None)
        self._refs.pop(key, None)
        if number is not None:
            life = self.lives[number]
            life.died = self.clock()
            self.held.add(-life.nbytes if life.counted else 0)

    def rebase(self) -> None:
        """Start the recorded step: what lives now was there before it."""
        for life in self.lives:
            life.born = -1
        self._dead = {life.id for life in self.lives if life.died is not None}

    def mark(self, tensor: Any, category: Category, label: str = "", module: str = "") -> None:
        """Say what a tensor's storage holds."""
        if not isinstance(tensor, torch.Tensor):
            return
        number = self.id_of(tensor)
        if number >= 0:
            life = self.lives[number]
            if life.named:
                return
            if life.category is None or category in ("parameter", "gradient"):
                life.category = category
                life.label = label or life.label
                life.module = module or life.module

    def name(self, tensor: torch.Tensor, label: str, module: str) -> None:
        """Say finally what a tensor's storage holds: memory of a whole parameter that is there only
        while it is used (FSDP) is called neither by its allocation nor as the parameter itself."""
        number = self.id_of(tensor)
        if number >= 0:
            life = self.lives[number]
            life.label, life.module, life.named = label, module, True

    def finish(self, first_backward: int, resident: Category) -> tuple[Storage, ...]:
        """All device storages that live during the step, categories filled in.

        Args:
            first_backward: index of the first backward operator (ops count if there is none):
                what is born before and lives past it was saved for backward.
            resident: category of device memory that was there before and that nothing named.
        """
        out = []
        for life in self.lives:
            if not life.device or life.nbytes == 0 or life.id in self._dead:
                continue
            category = life.category or self._guess(life, first_backward, resident)
            out.append(
                Storage(
                    life.id, life.nbytes, category, life.born, life.died, life.module, life.label
                )
            )
        return tuple(out)

    def _guess(self, life: Life, first_backward: int, resident: Category) -> Category:
        if life.floating and life.dims >= 3:
            if life.born == -1:
                # Replaced within the step: state that the program carries from step to step.
                return "cache" if life.died is not None else resident
            if life.died is None and first_backward == self.clock():
                return "cache"
        if life.born == -1:
            return "input"
        if life.phase == "input":
            return "input"
        saved = life.died is None or life.died > first_backward
        return "activation" if life.born < first_backward and saved else "temporary"


def answer_addresses(patch: Patches, storages: StorageTracker) -> None:
    """`data_ptr()` tells which tensors share memory (tied weights), as libraries that save ask."""
    of_tensor, of_storage = torch.Tensor.data_ptr, torch.UntypedStorage.data_ptr

    def tensor_address(self: torch.Tensor) -> int:
        if not isinstance(self, FakeTensor):
            return of_tensor(self)
        storages.see(self, on_device(self), "", "", "other")
        begin = storages.address_of(self.untyped_storage())
        return begin and begin + int(self.storage_offset()) * self.element_size()

    def storage_address(self: torch.UntypedStorage) -> int:
        return storages.address_of(self) if self.device.type == "meta" else of_storage(self)

    patch.set(torch.Tensor, "data_ptr", tensor_address)
    patch.set(torch.UntypedStorage, "data_ptr", storage_address)
