"""Which modules there are, and which of them are models: held by no other module."""

from __future__ import annotations

import gc
from typing import Any

__all__ = ["modules", "roots", "unwrapped"]

_WRAPPERS = frozenset({"DistributedDataParallel", "FullyShardedDataParallel", "DataParallel"})


def modules() -> list[Any]:
    """Every module of this process; looks through all objects, about 0.1 s."""
    import torch

    return [o for o in gc.get_objects() if issubclass(type(o), torch.nn.Module)]


def roots() -> list[Any]:
    """Modules that no other module holds."""
    import torch

    lists = (torch.nn.ModuleList, torch.nn.ModuleDict)
    every = modules()
    held = {id(child) for module in every for child in module.children()}
    # A slice of a model's layers is a list of its own, and no model.
    real = {id(c) for m in every if not isinstance(m, lists) for c in m.children()}
    real |= {id(c) for m in every if id(m) in real for c in m.children()}
    return [
        module
        for module in every
        if id(module) not in held
        and not _compilers(module)
        and not (isinstance(module, lists) and any(id(c) in real for c in module.children()))
    ]


def unwrapped(module: Any) -> Any:
    """The user's model: what a wrapper of `torch.nn.parallel` or FSDP holds, else the module."""
    while type(module).__name__ in _WRAPPERS and type(module).__module__.startswith("torch."):
        module = module.module
    return module


def _compilers(module: Any) -> bool:
    """Whether it is a graph that the compiler has made of the user's code."""
    import torch

    made = isinstance(module, torch.fx.GraphModule)
    return made and hasattr(module, "compile_subgraph_reason")
