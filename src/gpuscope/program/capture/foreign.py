"""Places in torch and transformers that take another path because tensors are fakes."""

from __future__ import annotations

import sys
from typing import Any

import torch
import torch._subclasses.fake_tensor as fake_tensor_module
from torch._subclasses.fake_tensor import FakeTensor

from gpuscope.program.capture.fakes import with_index
from gpuscope.program.capture.patches import Patches


def install(patch: Patches, recorder: Any) -> None:
    """Make them take the path of a real run."""
    # Small constants of the user's code (lists of lengths, offsets) keep their values on the host.
    patch.set(fake_tensor_module, "CONSTANT_NUMEL_LIMIT", 256, only_if_present=True)
    _foreach(patch)
    _grouping(patch)
    _module_conversion(patch)
    transformers_as_run(patch, recorder)
    _scripting(patch)
    patch.set(torch, "save", _nothing)  # there are no values to save
    _profiling(patch)
    # The RNN's own question about cuDNN, and the fused encoder layers of inference, which run
    # the same kernels as the unfused ones below.
    patch.set(torch.backends.cudnn, "is_acceptable", _no)
    patch.set(torch.backends.mha, "get_fastpath_enabled", _no, only_if_present=True)


def _foreach(patch: Patches) -> None:
    """Optimizers use their foreach path for exact types only; fakes are a subclass."""
    from torch.utils import _foreach_utils

    for module in (_foreach_utils, sys.modules.get("torch.optim.optimizer")):
        types = getattr(module, "_foreach_supported_types", None)
        if types is not None and FakeTensor not in types:
            patch.set(module, "_foreach_supported_types", [*types, FakeTensor])


def _grouping(patch: Patches) -> None:
    """Optimizers and clipping group tensors in C++, which takes every fake for a CPU tensor."""
    group = torch._C._group_tensors_by_device_and_dtype

    def by_device(tensorlists: Any, with_indices: bool = False) -> Any:
        groups: dict[Any, Any] = {}
        for (device, dtype), found in group(tensorlists, with_indices).items():
            first = next((t for t in found[0][0] if t is not None), None)
            groups[(device if first is None else first.device, dtype)] = found
        return groups

    patch.set(torch._C, "_group_tensors_by_device_and_dtype", by_device)


def _module_conversion(patch: Patches) -> None:
    """`Module.to` swaps fakes, which they refuse: convert in place, as with real tensors."""
    rebuilt: dict[int, tuple[Any, Any]] = {}

    def convert(tensor: Any, fn: Any) -> Any:
        with torch.no_grad():
            applied = fn(tensor)
        fakes = isinstance(tensor, FakeTensor) and isinstance(applied, FakeTensor)
        if fakes and (_on_meta(tensor) == _on_meta(applied)):
            tensor.data = applied
            return tensor
        if id(tensor) in rebuilt:  # a tied weight keeps its tie
            return rebuilt[id(tensor)][1]
        made = torch.nn.Parameter(applied, tensor.requires_grad)
        rebuilt[id(tensor)] = (tensor, made)
        return made

    def replace(owner: Any, key: str, old: Any, new: Any) -> None:
        if isinstance(old, FakeTensor):
            owner[key] = new
        else:  # of a model made before the capture, which gets it back
            patch.set_item(owner, key, new)

    def apply(self: torch.nn.Module, fn: Any, recurse: bool = True) -> torch.nn.Module:
        if recurse:
            for child in self.children():
                child._apply(fn)
        for key, parameter in self._parameters.items():
            if parameter is None:
                continue
            grad = parameter.grad
            made = convert(parameter, fn)
            replace(self._parameters, key, parameter, made)
            if grad is not None:
                with torch.no_grad():
                    made.grad = fn(grad)
        for key, buffer in self._buffers.items():
            if buffer is not None:
                replace(self._buffers, key, buffer, fn(buffer))
        return self

    parse = torch._C._nn._parse_to

    def parse_to(*args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], int):
            args = (with_index(args[0]), *args[1:])
        return parse(*args, **kwargs)

    patch.set(torch.nn.Module, "_apply", apply)
    patch.set(torch._C._nn, "_parse_to", parse_to)


def _scripting(patch: Patches) -> None:
    """What cannot be scripted because it calls a replaced function stays as it is."""
    script = torch.jit.script

    def as_is(obj: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return script(obj, *args, **kwargs)
        except Exception:  # the compiler has many
            return obj

    patch.set(torch.jit, "script", as_is)


class _NoEvents(list[Any]):
    """What a profiler has recorded: nothing."""

    def table(self, *args: Any, **kwargs: Any) -> str:
        """An empty table."""
        return ""


def _profiling(patch: Patches) -> None:
    """PyTorch's profiler, where the user's code has it on, finds nothing to record."""
    kineto: Any = torch.profiler.profiler._KinetoProfile
    for name in (
        "prepare_trace", "start_trace", "stop_trace", "export_chrome_trace", "export_stacks",
        "export_memory_timeline",
    ):  # fmt: skip
        patch.set(kineto, name, _nothing, only_if_present=True)
    for name in ("key_averages", "events"):
        patch.set(kineto, name, lambda *args, **kwargs: _NoEvents())


def _nothing(*args: Any, **kwargs: Any) -> None:
    return None


def _on_meta(tensor: FakeTensor) -> bool:
    return tensor.fake_device.type == "meta"


def _no(*args: Any, **kwargs: Any) -> bool:
    return False


def transformers_as_run(patch: Patches, recorder: Any) -> None:
    """transformers takes fake tensors for a trace, and then builds 4-D masks for attention.

    A run without torch.compile is none. With it, it is one: the masks are really built.
    To be called again when the user's code may have imported more of it.
    """
    names = ("is_tracing", "is_fake_tensor", "is_torchdynamo_compiling", "is_jit_tracing")
    tracing = recorder.__dict__.setdefault(
        "is_traced", lambda *args, **kwargs: bool(recorder.compiled)
    )
    for module_name, module in list(sys.modules.items()):
        if not module_name.startswith("transformers") or module is None:
            continue
        for name in names:
            if callable(vars(module).get(name, None)) and vars(module)[name] is not tracing:
                patch.set(module, name, tracing)
