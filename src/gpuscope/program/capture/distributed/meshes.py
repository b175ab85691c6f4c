"""`DeviceMesh`: made of real numbers, its dimensions name the groups; DTensors say "cuda"."""

from __future__ import annotations

import contextlib
import functools
import sys
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from gpuscope.program.capture.distributed.groups import Groups
from gpuscope.program.capture.patches import Patches

_WITH_NUMBERS = (
    "__getitem__", "_flatten", "_unflatten", "_get_all_submeshes", "_concatenate", "from_group",
    "__repr__",
)  # fmt: skip


def install(patch: Patches, recorder: Any) -> None:
    """Let meshes compute with real ranks, and learn what their dimensions are called."""
    from torch.distributed import device_mesh
    from torch.distributed.device_mesh import DeviceMesh

    patch.set(device_mesh, "torch", _RealNumbers())
    prepared = False
    original = DeviceMesh.__init__

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        nonlocal prepared
        if not prepared:
            prepared = True
            _wrappers_on_device(patch, recorder)
            patch.on_undo(_forget_shardings)
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
        with _disable_current_modes(), torch.device("cpu"):
            return torch.arange(*args, **kwargs)


def _numbers(mesh: Any) -> Any:
    """The ranks of a mesh that the user wrote down as a tensor: counted up from 0, if not known."""
    if not isinstance(mesh, FakeTensor):
        return mesh
    if mesh.constant is not None:
        return mesh.constant
    with _disable_current_modes(), torch.device("cpu"):
        return torch.arange(mesh.numel()).view(tuple(mesh.shape))


def _outside(function: Any) -> Any:
    """The same function, run outside of the fake mode."""
    inner = function.__func__ if isinstance(function, (staticmethod, classmethod)) else function

    @functools.wraps(inner)
    def run(*args: Any, **kwargs: Any) -> Any:
        with _disable_current_modes():
            return inner(*args, **kwargs)

    return type(function)(run) if inner is not function else run


def _forget_shardings() -> None:
    """DTensor remembers results by mesh; another rank's equal mesh has groups of other names."""
    from torch.distributed.tensor import debug

    clear = getattr(debug, "_clear_sharding_prop_cache", None)
    if clear is not None:
        clear()


def learn(mesh: Any, groups: Groups) -> None:
    """What a mesh tells of its groups."""
    names = mesh.mesh_dim_names
    if getattr(mesh, "_root_mesh", None) is None:
        groups.made_mesh(names, tuple(mesh.shape))
    for name, group in zip(names or (), getattr(mesh, "_dim_group_names", ()), strict=False):
        groups.name(group, name)


def _wrappers_on_device(patch: Patches, recorder: Any) -> None:
    """Tensors that hold fakes are CPU tensors to C++, as fakes are, and say what fakes say."""
    from torch.distributed._functional_collectives import AsyncCollectiveTensor
    from torch.distributed.tensor import DTensor

    make = torch.Tensor._make_wrapper_subclass

    def wrapper(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("device") is not None and torch.device(kwargs["device"]).type == "cuda":
            kwargs["device"] = torch.device("cpu")
        return make(cls, *args, **kwargs)

    patch.set(torch.Tensor, "_make_wrapper_subclass", staticmethod(wrapper))
    for kind, held in ((DTensor, "_local_tensor"), (AsyncCollectiveTensor, "elem")):
        patch.set(kind, "device", property(lambda self, h=held: getattr(self, h).device))
        patch.set(kind, "is_cuda", property(lambda self, h=held: getattr(self, h).is_cuda))
        patch.set(kind, "is_cpu", property(lambda self, h=held: getattr(self, h).is_cpu))
    _as_in_a_run(patch, recorder)


def _as_in_a_run(patch: Patches, recorder: Any) -> None:
    """Places that take a fake mode for a trace, and a device's random state for real."""
    from torch.distributed import _functional_collectives as functional
    from torch.distributed.tensor import _random, _sharding_prop

    active = [True]
    patch.on_undo(active.clear)
    original = functional._are_we_tracing

    def tracing() -> bool:
        return not active and bool(original())

    for name, module in list(sys.modules.items()):
        inside = name.startswith(("torch.distributed.tensor", functional.__name__))
        if inside and vars(module).get("_are_we_tracing") is original:
            patch.set(module, "_are_we_tracing", tracing)
    _shapes_unseen(patch, recorder, _sharding_prop.ShardingPropagator)

    @contextlib.contextmanager
    def region(self: Any, *args: Any, **kwargs: Any) -> Any:
        yield

    for kind in vars(_random).values():
        if isinstance(kind, type) and "_distribute_region" in vars(kind):
            patch.set(kind, "_distribute_region", region)


def _shapes_unseen(patch: Patches, recorder: Any, propagator: Any) -> None:
    """DTensor runs operators on whole shapes, to learn the result's: no work of a step."""
    for name in ("propagate_op_sharding_non_cached", "_propagate_tensor_meta_non_cached"):
        original = vars(propagator).get(name)
        if original is None:
            continue

        def unseen(*args: Any, inner: Any = original, **kwargs: Any) -> Any:
            # Answers are kept: a later step asks for none, so their Python work is not counted.
            with recorder.looking_away(), recorder.python.not_counting():
                return inner(*args, **kwargs)

        patch.set(propagator, name, unseen)
    _forget_answers()


def _forget_answers() -> None:
    """Answers of an earlier capture are about its meshes: comparing with them takes longer."""
    from torch.distributed.tensor import _redistribute, debug

    for module, name in (
        (debug, "_clear_sharding_prop_cache"), (debug, "_clear_python_sharding_prop_cache"),
        (getattr(_redistribute, "_gen_transform_infos", None), "cache_clear"),
    ):  # fmt: skip
        clear = getattr(module, name, None)
        if clear is not None:
            clear()
