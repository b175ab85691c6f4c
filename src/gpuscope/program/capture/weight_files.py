"""Weights in safetensors files: read into host memory, copied to the device, and saved.

The library reads and makes tensors in Rust, by their addresses, and crashes the process where they
are fakes. What is saved has its true names, shapes and types, and zeros where the capture knows no
values; which tensors have some stands in the file, so that it is known of whatever copy of it is
read. A path is written to where nothing is left behind; elsewhere a file in its place is.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import Any

import torch
from torch.utils._mode_utils import no_dispatch

from gpuscope.program.capture.checkpoints import known_values, remembered
from gpuscope.program.capture.fakes import is_device_type, recorder
from gpuscope.program.capture.patches import Patches, here

__all__ = ["install", "install_saving"]

_MARK = "saved while gpuscope captured"
"""Key of the file's description whose value lists the tensors that hold values."""


def install(patch: Patches) -> None:
    """Stand in for `safe_open`, where it was imported and where it will be."""
    import safetensors

    original: Any = safetensors.safe_open
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get("safe_open") is original:
            patch.everywhere(
                module, "safe_open", _opener(original)
            )  # it asks for the thread itself


def install_saving(patch: Patches) -> None:
    """Stand in for what `save_file`, `save` and `load` call, by whatever name one has them."""
    import safetensors.torch as module

    places = tempfile.TemporaryDirectory(prefix="gpuscope-weights-", ignore_cleanup_errors=True)
    _Saved.folder, _Saved.by_path = places.name, {}
    patch.on_undo(places.cleanup)
    patch.on_undo(_Saved.by_path.clear)
    for name in ("_flatten", "_flatten_as_ptr", "deserialize"):
        patch.set(module, name, _as_given, only_if_present=True)
    for name, function in {
        "serialize_file": _save_file,
        "serialize": _save,
        "_view2torch": _load,
    }.items():
        patch.set(module, name, function)


def _as_given(value: Any, *_: Any) -> Any:
    return value


class _Saved:
    """Files in place of paths that are not written to."""

    folder = ""
    by_path: dict[str, str] = {}  # noqa: RUF012

    @classmethod
    def place(cls, path: Any) -> Any:
        """Where to write what is saved under a path."""
        from gpuscope.program.guard import private

        if private.is_set():
            return path
        known = remembered(path)
        return cls.by_path.setdefault(known, os.path.join(cls.folder, str(len(cls.by_path))))

    @classmethod
    def found(cls, path: Any) -> Any:
        """Where to read it."""
        return cls.by_path.get(os.path.abspath(path), path)


# -- reading --------------------------------------------------------------------------------------


def _fake(real: Any, device: Any, hollow: bool) -> Any:
    """A tensor of the file as a fake, in host memory or copied to the device."""
    if not isinstance(real, torch.Tensor) or not (hollow or is_device_type(device)):
        return real
    active = recorder()
    made = active.fake.from_tensor(real)
    if not hollow:
        active.host_values.adopt(made, real)
    return made.to(device) if is_device_type(device) else made


def _holding(metadata: Mapping[str, str] | None) -> set[str] | None:
    """Names of the tensors with values in a file that was saved in a capture; None in others."""
    said = (metadata or {}).get(_MARK)
    return None if said is None else set(json.loads(said))


class _Slice:
    """Part of a tensor of the file."""

    def __init__(self, of: Any, device: Any, hollow: bool) -> None:
        self.of, self.device, self.hollow = of, device, hollow

    def __getattr__(self, name: str) -> Any:
        return getattr(self.of, name)

    def __getitem__(self, index: Any) -> Any:
        with no_dispatch():
            real = self.of[index]
        return _fake(real, self.device, self.hollow)


@cache
def _opener(original: Any) -> Any:
    class Opened:
        """A file of weights; outside of the capture, as ever."""

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            return super().__new__(cls) if here() else original(*args, **kwargs)

        def __init__(self, filename: Any, framework: str = "pt", device: Any = "cpu", **more: Any):
            self.device = device
            place = _Saved.found(filename)
            self.file = original(place, framework=framework, device="cpu", **more)
            self.holding = _holding(self.file.metadata())

        def __enter__(self) -> Any:
            self.file.__enter__()
            return self

        def __exit__(self, *error: Any) -> None:
            self.file.__exit__(*error)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

        def metadata(self) -> dict[str, str] | None:
            said = self.file.metadata() or {}
            return {key: value for key, value in said.items() if key != _MARK} or None

        def _hollow(self, name: str) -> bool:
            return self.holding is not None and name not in self.holding

        def get_tensor(self, name: str) -> Any:
            with no_dispatch():
                real = self.file.get_tensor(name)
            return _fake(real, self.device, self._hollow(name))

        def get_tensors(self) -> dict[str, Any]:
            return {name: self.get_tensor(name) for name in self.file.keys()}  # noqa: SIM118

        def get_slice(self, name: str) -> _Slice:
            return _Slice(self.file.get_slice(name), self.device, self._hollow(name))

    return Opened


def _load(data: bytes) -> dict[str, torch.Tensor]:
    """What `safetensors.torch.load` returns."""
    with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
        file.write(data)
        file.flush()
        from safetensors.torch import load_file

        return dict(load_file(file.name))


# -- saving ---------------------------------------------------------------------------------------


def _save_file(tensors: Any, filename: Any, metadata: Any = None) -> None:
    """What `safetensors.torch.save_file` does."""
    begins, parts, size = _written(tensors, metadata)
    with open(_Saved.place(filename), "wb") as file:
        file.write(begins)
        for at, content in parts:
            file.seek(len(begins) + at)
            file.write(content)
        file.truncate(len(begins) + size)


def _save(tensors: Any, metadata: Any = None) -> bytes:
    """What `safetensors.torch.save` returns."""
    begins, parts, size = _written(tensors, metadata)
    content = bytearray(size)
    for at, part in parts:
        content[at : at + len(part)] = part
    return begins + bytes(content)


def _written(tensors: Any, metadata: Any) -> tuple[bytes, list[tuple[int, bytes]], int]:
    """A file's head, what of its content is known and where, and how long the content is.

    Raises:
        ValueError, RuntimeError: it cannot be saved, as the library says.
    """
    import safetensors.torch as module

    _check(module, tensors)
    types = {dtype: name for name, dtype in module._TYPES.items()}
    described: dict[str, Any] = {}
    parts: list[tuple[int, bytes]] = []
    holding: list[str] = []
    at = 0
    for name, tensor in sorted(tensors.items(), key=lambda item: -item[1].element_size()):
        host = tensor.detach().cpu()
        size = math.prod(host.shape) * host.element_size()
        values = known_values(recorder(), host)
        if values is not None:
            parts.append((at, values))
            holding.append(name)
        offsets = [at, at + size]
        described[name] = {
            "dtype": types[host.dtype],
            "shape": list(host.shape),
            "data_offsets": offsets,
        }
        at += size
    said = {**(metadata or {}), _MARK: json.dumps(holding)}
    head = json.dumps({"__metadata__": said, **described}).encode()
    head += b" " * (-len(head) % 8)
    return len(head).to_bytes(8, "little") + head, parts, at


def _check(module: ModuleType, tensors: Any) -> None:
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, torch.Tensor] but received {type(tensors)}")
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"Key `{name}` is no tensor but a {type(tensor)}")
        if tensor.layout is not torch.strided:
            raise ValueError(f"`{name}` is sparse, which safetensors cannot save")
        if not tensor.is_contiguous():
            raise ValueError(f"`{name}` is not contiguous: save it with .contiguous()")
    shared = [names for names in module._find_shared_tensors(tensors) if len(names) > 1]
    if shared:
        raise RuntimeError(f"Some tensors share memory: {shared}. Save them by `save_model`")
