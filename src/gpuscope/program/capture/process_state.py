"""What a user's code may change of its process while it is captured: its own, or put back after.

Random states belong to the capture's threads: the code draws from copies, so that another thread
draws what it would have drawn without the capture. PyTorch's switches and its default type are the
whole process's, also in PyTorch; they are put back.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _python_dispatch as modes

from gpuscope.program.capture.fakes import DefaultType
from gpuscope.program.capture.patches import Patches


def _backend_flags() -> Iterator[tuple[Any, str]]:
    yield torch.backends.cuda.matmul, "allow_tf32"
    yield torch.backends.cudnn, "allow_tf32"
    yield torch.backends.cudnn, "benchmark"
    yield torch.backends.cudnn, "deterministic"
    yield torch.backends.cudnn, "enabled"


def _sdp_flags() -> Iterator[tuple[Callable[[], bool], Callable[[bool], None]]]:
    cuda = torch.backends.cuda
    yield cuda.flash_sdp_enabled, cuda.enable_flash_sdp
    yield cuda.mem_efficient_sdp_enabled, cuda.enable_mem_efficient_sdp
    yield cuda.math_sdp_enabled, cuda.enable_math_sdp
    if hasattr(cuda, "cudnn_sdp_enabled"):
        yield cuda.cudnn_sdp_enabled, cuda.enable_cudnn_sdp


def preserve(patch: Patches) -> torch.Generator:
    """Put back default dtype and device, precision, grad mode, switches and modes in the end; give
    the capture's threads random states of their own, PyTorch's is returned."""

    def back(write: Callable[..., Any], *before: Any) -> None:
        patch.on_undo(lambda: write(*before))

    for owner, name in _backend_flags():
        back(_write_flag, owner, name, getattr(owner, name))
    for read, write in _sdp_flags():
        back(write, read())
    back(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
    back(torch.set_default_dtype, torch.get_default_dtype())
    back(torch.set_grad_enabled, torch.is_grad_enabled())
    for device in ("cuda", "cpu"):
        back(torch.set_autocast_enabled, device, torch.is_autocast_enabled(device))
    back(torch.autograd.set_detect_anomaly, torch.is_anomaly_enabled())
    back(torch.use_deterministic_algorithms, torch.are_deterministic_algorithms_enabled())
    back(_restore_default_device, _default_device_mode())
    back(_leave_modes, torch._C._len_torch_dispatch_stack())
    generator = _own_random_states(patch)
    if threading.active_count() > 1:
        DefaultType.follow(patch)
    return generator


def _write_flag(owner: Any, name: str, before: bool) -> None:
    """Put a switch back that was moved; PyTorch's own tests forbid that they are written to."""
    if getattr(owner, name) != before:
        setattr(owner, name, before)


def _default_device_mode() -> Any:
    return getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)


def _restore_default_device(before: Any) -> None:
    if _default_device_mode() is not before:
        torch.set_default_device(None if before is None else before.device)


def _leave_modes(before: int) -> None:
    """Modes that an interrupt has left behind would make every tensor of this thread a fake."""
    while torch._C._len_torch_dispatch_stack() > before:
        modes._pop_mode()


def _own_random_states(patch: Patches) -> torch.Generator:
    """Code that is captured draws from copies of the process's random states."""
    _put_back_if_alone(patch, torch.get_rng_state, torch.set_rng_state)
    _put_back_if_alone(patch, random.getstate, random.setstate)
    generator = torch._C.Generator(device="cpu")
    generator.set_state(torch.get_rng_state())

    def set_state(state: Any) -> None:
        generator.set_state(state)

    for name, own in {
        "manual_seed": lambda seed: generator.manual_seed(int(seed)),
        "seed": generator.seed,
        "initial_seed": generator.initial_seed,
        "get_rng_state": generator.get_state,
        "set_rng_state": set_state,
    }.items():
        for module in (torch, torch.random):
            patch.set(module, name, own, only_if_present=True)
    drawn = random.Random(0)
    drawn.setstate(random.getstate())
    _replace_methods(patch, random, drawn)
    numpy: Any = sys.modules.get("numpy.random")
    if numpy is not None:
        _put_back_if_alone(patch, numpy.get_state, numpy.set_state)
        state = numpy.RandomState(0)
        state.set_state(numpy.get_state())
        _replace_methods(patch, numpy, state)
    return generator


def _replace_methods(patch: Patches, module: Any, own: Any) -> None:
    """A module's functions that are methods of its one hidden generator, as those of another."""
    for name, function in list(vars(module).items()):
        if name.startswith("_") or isinstance(function, type):
            continue
        if callable(function) and callable(getattr(own, name, None)):
            patch.set(module, name, getattr(own, name))


def _put_back_if_alone(
    patch: Patches, read: Callable[[], Any], write: Callable[[Any], Any]
) -> None:
    """Put a random state back that code has changed by a name that it had imported before.

    Where other threads run they may have drawn from it since, and it is left as it is.
    """
    if threading.active_count() == 1:
        before = read()
        patch.on_undo(lambda: write(before))
