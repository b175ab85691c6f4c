"""Memory that waits on the host: saved activations and optimizer states.

Copies are queued on the stream that computes, from and to page-locked memory: the host goes on, and
the device's memory is free for others as soon as the stream has passed the copy. On a stream of
their own they would overlap, but what is still being copied cannot be used again, and a forward
pass makes activations many times faster than the link takes them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["ActivationOffload", "OptimizerOffload"]

LEAST_BYTES = 1 << 20
"""Smaller tensors stay: many copies for little memory."""


@dataclass(slots=True, weakref_slot=True)
class _Held:
    """A saved tensor on the host, and where it came from."""

    host: Any
    device: Any


class ActivationOffload:
    """Packs what autograd saves; a context manager to be entered around the forward pass.

    Parameters stay (they are on the device anyway), and a tensor that several operators save is
    copied once.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], tuple[Any, Any]] = {}

    def context(self) -> Any:
        """What is to be entered."""
        import torch

        return torch.autograd.graph.saved_tensors_hooks(self.pack, self.unpack)

    def pack(self, tensor: Any) -> Any:
        """Move a saved tensor to the host, if that is worth a copy."""
        import torch

        if tensor.device.type == "cpu" or tensor.nbytes < LEAST_BYTES or _is_weight(tensor):
            return tensor
        from torch.multiprocessing.reductions import StorageWeakRef

        storage = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
        key = (
            storage.cdata,
            tensor.storage_offset(),
            tuple(tensor.shape),
            tuple(tensor.stride()),
            tensor.dtype,
            None if tensor.is_inference() else tensor._version,
        )
        known = self._known.get(key)
        if known is not None and not known[0].expired():
            held = known[1]()
            if held is not None:
                return held
        self._forget()
        with torch.no_grad():
            held = _Held(tensor.detach().to("cpu", non_blocking=True), tensor.device)
        self._known[key] = (storage, weakref.ref(held))
        return held

    def unpack(self, packed: Any) -> Any:
        """Bring it back."""
        if not isinstance(packed, _Held):
            return packed
        return packed.host.to(packed.device, non_blocking=True)

    def _forget(self) -> None:
        gone = [
            k for k, (storage, held) in self._known.items() if storage.expired() or held() is None
        ]
        for key in gone:
            del self._known[key]


class OptimizerOffload:
    """Keeps optimizers' states on the host between their steps.

    Args:
        pretended: under a capture's fakes, where nothing needs to be brought back at the end.
    """

    def __init__(self, pretended: bool) -> None:
        self._pretended = pretended
        self._handles: list[Any] = []
        self._bring: list[Callable[[], None]] = []

    def use(self, optimizer: Any) -> None:
        """Have the states of an optimizer brought before each of its steps, and taken after."""
        homes: dict[tuple[int, str], Any] = {}

        def bring(*_: Any) -> None:
            for at, state in enumerate(optimizer.state.values()):
                for name in [n for n in state if (at, n) in homes]:
                    state[name] = state[name].to(homes.pop((at, name)), non_blocking=True)

        def take(*_: Any) -> None:
            for at, state in enumerate(optimizer.state.values()):
                for name, value in state.items():
                    if _worth_moving(value):
                        homes[at, name] = value.device
                        state[name] = value.to("cpu", non_blocking=True)

        self._handles.append(optimizer.register_step_pre_hook(bring))
        self._handles.append(optimizer.register_step_post_hook(take))
        self._bring.append(bring)

    def close(self) -> None:
        """Leave the states on the device, and stop moving them."""
        for handle in self._handles:
            handle.remove()
        for bring in () if self._pretended else self._bring:
            bring()
        self._handles, self._bring = [], []


def _is_weight(tensor: Any) -> bool:
    """A parameter or a view of one (a transposed weight)."""
    import torch

    base = tensor._base if tensor._is_view() else None
    return isinstance(tensor, torch.nn.Parameter) or isinstance(base, torch.nn.Parameter)


def _worth_moving(value: Any) -> bool:
    import torch

    return (
        isinstance(value, torch.Tensor)
        and value.device.type != "cpu"
        and value.nbytes >= LEAST_BYTES
    )
