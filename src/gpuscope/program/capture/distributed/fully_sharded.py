"""FSDP2's own operators: copies into and out of the buffers of its collectives, and its memory."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch

from gpuscope.document.text import Text
from gpuscope.program.capture.patches import Patches
from gpuscope.program.capture.storages import StorageTracker

TAKEN_APART = frozenset(
    {"fsdp::all_gather_copy_in", "fsdp::split_with_sizes_copy", "fsdp::chunk_cat"}
)
"""Operators whose CUDA kernels are other operators
(torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py)."""


_NEARLY_ALL = 0.9
"""A module with this share of what is gathered at once gives it its name: a final norm is gathered
with the head's weights, and its few elements are not what holds the memory."""


def install(patch: Patches, recorder: Any) -> None:
    """Follow storages that are resized to free and to hold unsharded parameters, and name them by
    the modules whose parameters they hold, not by the one whose hook gathers them."""
    _own_piece_only(patch)
    _name_gathered(patch, recorder)
    _mark_gradients(patch, recorder)
    original = torch.UntypedStorage.resize_

    def resize(self: Any, size: int) -> Any:
        result = original(self, size)
        recorder.storages.resized(self)
        return result

    patch.set(torch.UntypedStorage, "resize_", resize)


def _own_piece_only(patch: Patches) -> None:
    try:
        from torch.distributed.fsdp._fully_shard import _fsdp_param
    except ImportError:  # torch without FSDP2, or with another layout of it
        return

    def chunk(tensor: torch.Tensor, num_chunks: int, dim: int) -> Any:
        from gpuscope.program.capture.distributed.chunks import Pieces

        return Pieces(tensor, num_chunks, dim)

    patch.set(_fsdp_param, "_chunk_with_empty", chunk, only_if_present=True)


def _name_gathered(patch: Patches, recorder: Any) -> None:
    groups: Any = import_module("torch.distributed.fsdp._fully_shard._fsdp_param_group")
    gather, copy_out = groups.foreach_all_gather, groups.foreach_all_gather_copy_out

    def gathered(params: Any, *args: Any, **kwargs: Any) -> Any:
        result = gather(params, *args, **kwargs)
        if result is not None:
            module = _owner({_module(recorder, p): p._orig_size.numel() for p in params})
            recorder.storages.name(result.all_gather_output, Text("gathered weights"), module)
        return result

    def copied_out(result: Any, params: Any, *args: Any, **kwargs: Any) -> None:
        copy_out(result, params, *args, **kwargs)
        for param in params:
            label = Text("unsharded {parameter}", parameter=param._module_info.param_name)
            for tensor in param.all_gather_outputs:
                recorder.storages.name(tensor, label, _module(recorder, param))

    patch.set(groups, "foreach_all_gather", gathered)
    patch.set(groups, "foreach_all_gather_copy_out", copied_out)


def _mark_gradients(patch: Patches, recorder: Any) -> None:
    """Whole gradients that wait for later microbatches (`set_requires_gradient_sync(False)`)."""
    params: Any = import_module("torch.distributed.fsdp._fully_shard._fsdp_param").FSDPParam

    original = params.to_accumulated_grad_if_needed

    def kept(self: Any) -> None:
        original(self)
        label = Text("unsharded {parameter}.grad", parameter=self._module_info.param_name)
        for grad in (self.unsharded_accumulated_grad, self._unsharded_param.grad):
            recorder.storages.mark(grad, "gradient", label, _module(recorder, self))

    patch.set(params, "to_accumulated_grad_if_needed", kept)


def _module(recorder: Any, param: Any) -> str:
    """Path of the module that a sharded parameter belongs to."""
    return str(recorder.modules.path(param._module_info.module))


def _owner(sizes: dict[str, int]) -> str:
    """The module that a gathered group of parameters is called by; "" where they share none."""
    largest = max(sizes, key=lambda path: sizes[path])
    if sizes[largest] >= _NEARLY_ALL * sum(sizes.values()):
        return largest
    shared = []
    for parts in zip(*(path.split(".") for path in sizes), strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return ".".join(shared)


def run(storages: StorageTracker, name: str, args: Any, kwargs: Any) -> Any:
    """What the operator does on CUDA, each part for the recorder to see."""
    if name == "fsdp::all_gather_copy_in":
        return _all_gather_copy_in(storages, *args)
    if name == "fsdp::chunk_cat":
        tensors, dim, chunks = args
        torch._chunk_cat(tensors, dim, chunks, out=kwargs["out"])
        storages.mark(kwargs["out"], "communication", "reduce-scatter input")
        return None
    output, sizes = args[:2]
    dim = args[2] if len(args) > 2 else kwargs.get("dim", 0)
    torch.split_with_sizes_copy(output, sizes, dim=dim, out=kwargs["out"])
    for tensor in kwargs["out"]:
        storages.mark(tensor, "communication")
    return None


def _all_gather_copy_in(
    storages: StorageTracker, inputs: Any, output: Any, sizes: Any, numel: int, rank: int
) -> Any:
    mine = output.narrow(0, numel * rank, numel)
    with torch.no_grad():
        torch._foreach_copy_(torch.split(mine, sizes), inputs)
    storages.mark(output, "communication")
    return mine, output
