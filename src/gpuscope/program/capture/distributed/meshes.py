"""`DeviceMesh`: made of real numbers, its dimensions name the groups."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from gpuscope.program.capture.distributed import dtensors
from gpuscope.program.capture.distributed.groups import Groups
from gpuscope.program.capture.patches import Patches, here

_WITH_NUMBERS = (
    "__getitem__",
    "_flatten",
    "_unflatten",
    "_get_all_submeshes",
    "_concatenate",
    "from_group",
    "__repr__",
)


def install(patch: Patches, recorder: Any) -> None:
    """Let meshes compute with real ranks, and learn what their dimensions are called."""
    from torch.distributed import device_mesh
    from torch.distributed.device_mesh import DeviceMesh

    patch.everywhere(device_mesh, "torch", _RealNumbers())
    prepared = False
    original = DeviceMesh.__init__

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        nonlocal prepared
        if not prepared:
            prepared = True
            dtensors.install(patch, recorder)
        if len(args) > 1:
            args = (args[0], _numbers(args[1]), *args[2:])
        elif "mesh" in kwargs:
            kwargs["mesh"] = _numbers(kwargs["mesh"])
        with _disable_current_modes():
            original(self, *args, **kwargs)
        learn(self, recorder.groups)

    patch.set(DeviceMesh, "__init__", init)
    for name in _WITH_NUMBERS:
        if name in vars(DeviceMesh):
            patch.set(DeviceMesh, name, _outside(vars(DeviceMesh)[name]))
    numbers = vars(DeviceMesh).get("mesh")
    if isinstance(numbers, property):
        patch.set(DeviceMesh, "mesh", property(_outside(numbers.fget)))


class _RealNumbers:
    """torch, for `init_device_mesh`: the ranks that it counts up are real numbers."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def arange(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """As `torch.arange`, on the host and with values."""
        if not here():
            return torch.arange(*args, **kwargs)
        kwargs["device"] = "cpu"
        with _disable_current_modes():
            return torch.arange(*args, **kwargs)


def _numbers(mesh: Any) -> Any:
    """The ranks of a mesh that the user wrote down as a tensor: counted up from 0, if not known."""
    if not isinstance(mesh, FakeTensor):
        return mesh
    if mesh.constant is not None:
        return mesh.constant
    with _disable_current_modes():
        return torch.arange(mesh.numel(), device="cpu").view(tuple(mesh.shape))


def _outside(function: Any) -> Any:
    """The same function, run outside of the fake mode."""
    inner = function.__func__ if isinstance(function, (staticmethod, classmethod)) else function

    @functools.wraps(inner)
    def run(*args: Any, **kwargs: Any) -> Any:
        with _disable_current_modes():
            return inner(*args, **kwargs)

    return type(function)(run) if inner is not function else run


def learn(mesh: Any, groups: Groups) -> None:
    """What a mesh tells of its groups."""
    names = mesh.mesh_dim_names
    if getattr(mesh, "_root_mesh", None) is None:
        groups.made_mesh(names, tuple(mesh.shape))
    made = getattr(mesh, "_dim_group_names", None)
    if made is None:  # before torch 2.9
        made = [info[-1] for info in getattr(mesh, "_dim_group_infos", ())]
    for name, group in zip(names or (), made, strict=False):
        groups.name(group, name)
