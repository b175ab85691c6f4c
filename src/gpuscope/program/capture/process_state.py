"""Settings of the process that a user's code may change while it is captured, put back after."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch


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


@contextmanager
def preserved() -> Iterator[None]:
    """Put back default dtype and device, precision, grad mode, switches and random states."""
    with ExitStack() as stack:
        back = stack.callback
        for owner, name in _backend_flags():
            back(setattr, owner, name, getattr(owner, name))
        for read, write in _sdp_flags():
            back(write, read())
        back(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
        back(torch.set_default_dtype, torch.get_default_dtype())
        back(torch.set_grad_enabled, torch.is_grad_enabled())
        for device in ("cuda", "cpu"):
            back(torch.set_autocast_enabled, device, torch.is_autocast_enabled(device))
        back(torch.autograd.set_detect_anomaly, torch.is_anomaly_enabled())
        back(torch.set_rng_state, torch.get_rng_state())
        back(random.setstate, random.getstate())
        back(_restore_default_device, _default_device_mode())
        yield


def _default_device_mode() -> Any:
    return getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)


def _restore_default_device(before: Any) -> None:
    if _default_device_mode() is not before:
        torch.set_default_device(None if before is None else before.device)
