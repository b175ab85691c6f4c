"""Tensors that C++ composites make for their own use, told apart from tensors the user forgot.

A composite such as `one_hot` asks its argument for the device, hears "cpu" from a fake (see
fakes.py), and makes its helper in host memory. On CUDA the helper would be on the device. It is
known by its place: it is made and used within one call of Python code. A tensor that the user
made is used by another call, and mixing it with device tensors is the user's error.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from gpuscope.program.capture.fakes import accelerator, on_device

_OURS = (
    "gpuscope/program/capture",
    "torch/_subclasses",
    "torch/utils/_python_dispatch",
    "torch/_ops.py",
    "torch/_library/",
    "torch/utils/_device.py",
)

Place = tuple[int, int]


class MixedDevicesError(RuntimeError):
    """The user's code mixes host and device tensors in one operator."""


def place() -> Place:
    """Which call of Python code outside of the capture is running."""
    frame = sys._getframe(1)
    while frame.f_back is not None and any(o in frame.f_code.co_filename for o in _OURS):
        frame = frame.f_back
    return id(frame), frame.f_lasti


class Helpers:
    """Where host tensors were made, by storage id.

    Attributes:
        adopted: how many were found to be helpers so far.
    """

    def __init__(self) -> None:
        self._made: dict[int, Place] = {}
        self.adopted = 0

    def made(self, storage: int) -> None:
        """A host tensor was made by the call that runs now."""
        self._made[storage] = place()

    def adopt(self, name: str, tensors: list[Any], storage_of: Any) -> list[int]:
        """Declare the helpers among `tensors` to be on the device; returns their storages.

        Raises:
            MixedDevicesError: one of them is the user's.
        """
        here = place()
        adopted = []
        inside = torch._C._current_autograd_node() is not None
        for tensor in tensors:
            if not isinstance(tensor, torch.Tensor) or on_device(tensor):
                continue
            storage = storage_of(tensor) if isinstance(tensor, FakeTensor) else -1
            if not isinstance(tensor, FakeTensor) or not (
                inside or self._made.get(storage) == here
            ):
                if tensor.dim() == 0:
                    continue
                raise MixedDevicesError(
                    f"Expected all tensors to be on the same device, but '{name}' got one of shape"
                    f" {tuple(tensor.shape)} in host memory beside tensors on cuda:0."
                )
            tensor.fake_device = accelerator()
            adopted.append(storage)
            self.adopted += 1
        return adopted
