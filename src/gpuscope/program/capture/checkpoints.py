"""What the code saves with `torch.save`, and loads again in the same capture.

There are no values to write. What is saved is pickled here without its tensors, of which shapes,
types and places are kept; a mark that names it stands in the file, so that it is found again under
whatever name the file has later, also as a copy. A path is written to where nothing is left behind
(`gpuscope.program.guard`); elsewhere it is remembered alone.
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

from gpuscope.document.text import Text
from gpuscope.errors import CaptureError
from gpuscope.program.capture.fakes import on_device
from gpuscope.program.capture.patches import Patches
from gpuscope.program.capture.storages import held

__all__ = ["install"]

_MARK = "saved while gpuscope captured"
_NOT_KEPT = -1
_SMALL = 65_536
"""Elements of a host tensor whose values are kept, as those of other host tensors are."""


def install(patch: Patches, recorder: Any) -> None:
    """Stand in for `torch.save` and `torch.load`."""
    checkpoints = _Checkpoints(recorder, torch.load)
    patch.on_undo(_unwritten.clear)
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
        from gpuscope.program.guard import private

        _fetch(obj)
        number = self._keep(obj)
        if not isinstance(f, (str, os.PathLike)):
            torch.serialization.save({_MARK: number}, f)
        elif private.is_set():
            with open(f, "wb") as file:
                torch.serialization.save({_MARK: number}, file)
        else:
            self._by_path[remembered(f)] = number

    def load(self, f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        """What was saved in this capture, or what a file from before it holds."""
        path = os.path.abspath(f) if isinstance(f, (str, os.PathLike)) else ""
        if path in self._by_path and not os.path.exists(path):
            return self._made(self._by_path[path], map_location)
        found = self._load(f, map_location, *args, **kwargs)
        number = found.get(_MARK) if isinstance(found, dict) and len(found) == 1 else None
        if isinstance(number, int) and number < len(self._saved):
            return self._made(number, map_location)
        return found

    def _keep(self, obj: Any) -> int:
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
            return _NOT_KEPT  # a stand-in of the capture in it, or what cannot be saved at all
        self._saved.append((written.getvalue(), tensors))
        return len(self._saved) - 1

    def _described(self, tensor: torch.Tensor) -> _Tensor:
        storage = held(tensor).untyped_storage()
        values = _known(self.recorder, tensor)
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
        if number == _NOT_KEPT:
            raise CaptureError(
                Text("What this program saved cannot be loaded again in a prediction."),
                Text("It holds objects that cannot be pickled here."),
                Text("Save state_dict() in place of whole objects."),
            )
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


def _known(recorder: Any, tensor: torch.Tensor) -> torch.Tensor | None:
    """The values of a small tensor in host memory, where the capture knows them."""
    if on_device(tensor) or tensor.numel() > _SMALL or not tensor.is_contiguous():
        return None
    found: torch.Tensor | None = recorder.host_values.read(tensor)
    return found


def known_values(recorder: Any, tensor: torch.Tensor) -> bytes | None:
    """Such values as they lie in memory."""
    values = _known(recorder, tensor)
    if values is None:
        return None
    with no_dispatch():
        return bytes(torch._C.TensorBase.numpy(values.reshape(-1).view(torch.uint8)).tobytes())


_unwritten: set[str] = set()


def remembered(path: str | os.PathLike[str]) -> str:
    """A path that something is saved under and that is not written to, as it is known by."""
    known = os.path.abspath(path)
    _unwritten.add(known)
    return known


def misses_what_was_saved(error: BaseException) -> bool:
    """Whether an error names the folder of a file that was saved and not written."""
    return any(os.path.dirname(path) in str(error) for path in _unwritten)


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
