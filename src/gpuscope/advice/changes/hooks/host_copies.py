"""Copies from host to device, caught where the code asks for them: `Tensor.to`, `Tensor.cuda`.

Changes of input act here: they page-lock what is copied, have the host go on, or give a copy that
was made before.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["STAGED_BYTES", "HostCopy", "around_host_copies", "is_pinned"]

STAGED_BYTES = 64 * 1024
"""Copies of up to so many bytes from pageable memory go through the command queue; the host does
not wait for them (CUDA Runtime API, "API synchronization behavior")."""


@dataclass(frozen=True, slots=True)
class HostCopy:
    """A copy from host to device that the code asks for.

    Attributes:
        tensor: on the host.
        options: keywords of the call (device, dtype, non_blocking, copy, memory_format).
        call: what does it.
    """

    tensor: Any
    options: dict[str, Any]
    call: Callable[..., Any]

    def run(self, tensor: Any = None, **more: Any) -> Any:
        """Do it, with another source of the same shape or other keywords."""
        source = self.tensor if tensor is None else tensor
        return self.call(source, **{**self.options, **more})

    @property
    def nbytes(self) -> int:
        """Bytes of the source."""
        return int(self.tensor.numel() * self.tensor.element_size())


def around_host_copies(live: Live, handle: Callable[[HostCopy], Any]) -> None:
    """Have copies of data from host to device done by `handle`, which calls `HostCopy.run`.

    Parameters and whatever else needs a gradient are left alone.
    """
    import torch

    to, cuda = torch.Tensor.to, torch.Tensor.cuda

    @functools.wraps(to)
    def changed_to(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if not _is_data(tensor):
            return to(tensor, *args, **kwargs)
        options = _told(args, kwargs)
        if options is None or not _is_device(options.get("device")):
            return to(tensor, *args, **kwargs)
        return handle(HostCopy(tensor, options, to))

    @functools.wraps(cuda)
    def changed_cuda(
        tensor: Any, device: Any = None, non_blocking: bool = False, **more: Any
    ) -> Any:
        if not _is_data(tensor):
            return cuda(tensor, device, non_blocking, **more)
        options = {"non_blocking": non_blocking, **more}
        if device is not None:
            options["device"] = device
        return handle(HostCopy(tensor, options, cuda))

    live.set(torch.Tensor, "to", changed_to)
    live.set(torch.Tensor, "cuda", changed_cuda)


def is_pinned(tensor: Any) -> bool:
    """Whether a host tensor lies in page-locked memory."""
    import torch

    return bool(torch.cuda.is_available() and tensor.is_pinned())


def _is_data(tensor: Any) -> bool:
    import torch

    return (
        tensor.device.type == "cpu"
        and not tensor.requires_grad
        and tensor.layout is torch.strided
        and not isinstance(tensor, torch.nn.Parameter)
    )


def _told(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """All arguments of `Tensor.to` by name; None where only a dtype is asked for."""
    import torch

    options = dict(kwargs)
    other = options.pop("other", None)
    rest = list(args)
    if rest and isinstance(rest[0], torch.Tensor):
        other = rest.pop(0)
    elif rest and isinstance(rest[0], torch.dtype):
        return None
    elif rest:
        options["device"] = rest.pop(0)
        if rest and (rest[0] is None or isinstance(rest[0], torch.dtype)):
            options["dtype"] = rest.pop(0)
    if other is not None:
        options["device"], options["dtype"] = other.device, other.dtype
    for name in ("non_blocking", "copy"):
        if rest:
            options[name] = rest.pop(0)
    return {name: value for name, value in options.items() if value is not None}


def _is_device(device: Any) -> bool:
    import torch

    if device is None:
        return False
    if isinstance(device, int):
        return True
    return torch.device(device).type not in ("cpu", "meta")
