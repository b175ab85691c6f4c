"""What the code saves with `torch.save`, and loads again in the same capture.

There are no values to write. What is saved is pickled here without its tensors, of which shapes,
types and places are kept; a mark that names it stands in the file, so that it is found again under
whatever name the file has later. A path is not written to (a script's private copy does that).
"""

from __future__ import annotations

import io
import os
import pickle
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._mode_utils import no_dispatch
from torch.utils._pytree import tree_leaves

from gpuscope.program.capture.fakes import on_device
from gpuscope.program.capture.patches import Patches
from gpuscope.program.capture.storages import held

__all__ = ["install"]

_MARK = "saved while gpuscope captured"
_SMALL = 65_536
"""Elements of a host tensor whose values are kept, as those of other host tensors are."""


def install(patch: Patches, recorder: Any) -> None:
    """Stand in for `torch.save` and `torch.load`."""
    checkpoints = _Checkpoints(recorder, torch.load)
    patch.set(torch, "save", checkpoints.save)
    patch.set(torch, "load", checkpoints.load)


@dataclass(frozen=True)
class _Tensor:
    """A saved tensor: its storage by number, and how it lies there."""

    storage: int
    elements: int
    dtype: torch.dtype
    device: torch.device
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    parameter: bool
    requires_grad: bool
    values: torch.Tensor | None


class _Checkpoints:
    def __init__(self, recorder: Any, load: Any) -> None:
        self.recorder = recorder
        self._load = load
        self._saved: list[tuple[bytes, list[_Tensor]]] = []
        self._by_path: dict[str, int] = {}

    def save(self, obj: Any, f: Any, *_: Any, **__: Any) -> None:
        """Copy each storage from the device, as the real one does, and keep what `load` needs."""
        _fetch(obj)
        number = self._keep(obj)
        if number is None:
            return
        if isinstance(f, (str, os.PathLike)):
            self._by_path[os.path.abspath(f)] = number
        else:
            torch.serialization.save({_MARK: number}, f)

    def load(self, f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        """What was saved in this capture, or what a file from before it holds."""
        path = os.path.abspath(f) if isinstance(f, (str, os.PathLike)) else ""
        if path in self._by_path and not os.path.exists(path):
            return self._made(self._by_path[path], map_location)
        found = self._load(f, map_location, *args, **kwargs)
        number = found.get(_MARK) if isinstance(found, dict) and len(found) == 1 else None
        if isinstance(number, int) and 0 <= number < len(self._saved):
            return self._made(number, map_location)
        return found

    def _keep(self, obj: Any) -> int | None:
        written, tensors = io.BytesIO(), list[_Tensor]()

        class Pickler(pickle.Pickler):
            def persistent_id(_, found: Any) -> int | None:  # noqa: N805
                if not isinstance(found, torch.Tensor):
                    return None
                tensors.append(self._described(found))
                return len(tensors) - 1

        try:
            Pickler(written, protocol=2).dump(obj)
        except (pickle.PicklingError, AttributeError, TypeError, NotImplementedError):
            return None  # a stand-in of the capture in it, or what cannot be saved at all
        self._saved.append((written.getvalue(), tensors))
        return len(self._saved) - 1

    def _described(self, tensor: torch.Tensor) -> _Tensor:
        storage = held(tensor).untyped_storage()
        known = not on_device(tensor) and tensor.numel() <= _SMALL and tensor.is_contiguous()
        values = self.recorder.host_values.read(tensor) if known else None
        return _Tensor(
            storage._cdata,
            storage.nbytes() // tensor.element_size(),
            tensor.dtype,
            tensor.device,
            tuple(tensor.shape),
            tuple(tensor.stride()),
            int(tensor.storage_offset()),
            isinstance(tensor, torch.nn.Parameter),
            tensor.requires_grad,
            None if values is None else _copied(values),
        )

    def _made(self, number: int, map_location: Any) -> Any:
        content, tensors = self._saved[number]
        storages: dict[tuple[int, torch.dtype], torch.Tensor] = {}

        class Unpickler(pickle.Unpickler):
            def persistent_load(_, index: int) -> torch.Tensor:  # noqa: N805
                return self._tensor(tensors[index], map_location, storages)

        return Unpickler(io.BytesIO(content)).load()

    def _tensor(
        self, of: _Tensor, map_location: Any, storages: dict[tuple[int, torch.dtype], torch.Tensor]
    ) -> torch.Tensor:
        made: torch.Tensor
        device = _place(of.device, map_location)
        with torch.no_grad():
            if of.values is not None:
                made = self.recorder.fake.from_tensor(of.values)
                self.recorder.host_values.adopt(made, _copied(of.values))
                made = made.to(device)
            else:
                key = of.storage, of.dtype
                if key not in storages:
                    read = torch.empty(of.elements, dtype=of.dtype, device="cpu")
                    storages[key] = read.to(device)
                made = storages[key].as_strided(of.size, of.stride, of.offset)
        if of.parameter:
            return torch.nn.Parameter(made, of.requires_grad)
        return made.requires_grad_(of.requires_grad)


def _copied(values: torch.Tensor) -> torch.Tensor:
    with no_dispatch():
        copied: torch.Tensor = values.clone()
    return copied


def _place(saved: torch.device, map_location: Any) -> torch.device:
    """Where a tensor is loaded to. A function is taken to keep it in host memory."""
    if map_location is None:
        return saved
    if isinstance(map_location, dict):
        return torch.device(map_location.get(str(saved), saved))
    return torch.device("cpu") if callable(map_location) else torch.device(map_location)


def _fetch(obj: Any) -> None:
    """Copy what lies on the device to the host, each storage once, one after the other."""
    done: set[int] = set()
    for leaf in tree_leaves(obj):
        whole = isinstance(leaf, torch.nn.Module)
        for tensor in (*leaf.parameters(), *leaf.buffers()) if whole else (leaf,):
            if not isinstance(tensor, torch.Tensor) or not on_device(tensor):
                continue
            storage = held(tensor).untyped_storage()._cdata
            if storage not in done:
                done.add(storage)
                tensor.detach().cpu()
