"""The first FSDP (`FullyShardedDataParallel`): where it asks for a real accelerator."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

import torch

from gpuscope.program.capture.fakes import with_index
from gpuscope.program.capture.patches import Patches, here

_MODULE = "torch.distributed.fsdp._init_utils"


def install(patch: Patches, recorder: Any) -> None:
    """Let it turn the number of a device into a device, also if it is imported later."""
    patch.on_undo(lambda: _let_go(recorder.modules.roots))
    if _MODULE in sys.modules:
        patch.everywhere(sys.modules[_MODULE], "torch", _Torch())
        return
    finder = _Finder(patch)
    sys.meta_path.insert(0, finder)
    patch.on_undo(lambda: sys.meta_path.remove(finder))


def _let_go(roots: Any) -> None:
    """A flat parameter holds modules whose weights, by autograd, hold it: nobody frees them."""
    for _, root in roots:
        for parameter in root.parameters():
            if getattr(parameter, "_is_flat_param", False):
                for name in ("_param_infos", "_shared_param_infos", "_modules"):
                    vars(parameter).pop(name, None)


class _Finder:
    """Waits for the module to be imported."""

    def __init__(self, patch: Patches) -> None:
        self._patch = patch

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The module's own way to be loaded, and the replacement after it."""
        spec = PathFinder.find_spec(name, path) if name == _MODULE else None
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            load(module)
            self._patch.everywhere(module, "torch", _Torch())

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


class _AnyDevice(type):
    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if here() and len(args) == 1 and isinstance(args[0], int):
            return with_index(args[0])
        return torch.device(*args, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, torch.device)


class _Device(metaclass=_AnyDevice):
    """`torch.device`, which also takes a number without an accelerator."""


class _Torch:
    """torch, but for `torch.device`."""

    device = _Device

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)
