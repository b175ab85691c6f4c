"""Weights in safetensors files: read into host memory, and copied to the device as a step would.

The library makes tensors in Rust, of memory that it maps itself, and crashes the process where
they are fakes.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.utils._mode_utils import no_dispatch

from gpuscope.program.capture.fakes import is_device_type
from gpuscope.program.capture.patches import Patches, here

__all__ = ["install"]


def install(patch: Patches, recorder: Any) -> None:
    """Stand in for `safe_open`, where it was imported and where it will be."""
    try:
        import safetensors
    except ImportError:
        return
    original: Any = safetensors.safe_open

    def fake(real: Any, device: Any) -> Any:
        if not isinstance(real, torch.Tensor) or not is_device_type(device):
            return real
        made = recorder.fake.from_tensor(real)
        recorder.host_values.adopt(made, real)
        return made.to(device)

    class Slice:
        """Part of a tensor of the file."""

        def __init__(self, of: Any, device: Any) -> None:
            self.of, self.device = of, device

        def __getattr__(self, name: str) -> Any:
            return getattr(self.of, name)

        def __getitem__(self, index: Any) -> Any:
            with no_dispatch():
                real = self.of[index]
            return fake(real, self.device)

    class Opened:
        """A file of weights; outside of the capture, as ever."""

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            return super().__new__(cls) if here() else original(*args, **kwargs)

        def __init__(self, filename: Any, framework: str = "pt", device: Any = "cpu", **more: Any):
            self.device = device
            self.file = original(filename, framework=framework, device="cpu", **more)

        def __enter__(self) -> Any:
            self.file.__enter__()
            return self

        def __exit__(self, *error: Any) -> None:
            self.file.__exit__(*error)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

        def get_tensor(self, name: str) -> Any:
            with no_dispatch():
                real = self.file.get_tensor(name)
            return fake(real, self.device)

        def get_tensors(self) -> dict[str, Any]:
            return {name: self.get_tensor(name) for name in self.file.keys()}  # noqa: SIM118

        def get_slice(self, name: str) -> Slice:
            return Slice(self.file.get_slice(name), self.device)

    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get("safe_open") is original:
            patch.everywhere(module, "safe_open", Opened)  # it asks for the thread itself
