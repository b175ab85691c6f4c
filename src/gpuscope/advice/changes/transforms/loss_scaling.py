"""A gradient scaler for live code that has none: between loss, gradients and optimizers.

What a script with `torch.amp.GradScaler` does by hand: the loss is scaled at `backward`, gradients
are unscaled before they are clipped, an update is left out where a gradient overflowed, and the
scale is adapted once after the updates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuscope.advice.changes.hooks.live import Live

__all__ = ["LossScaling"]

_CLIPPING = ("clip_grad_norm_", "clip_grad_value_")


class LossScaling:
    """One scaler for all optimizers of the live code.

    Args:
        live: where it takes hold.
        device: "cuda", or "cpu" for a run on the host.
    """

    def __init__(self, live: Live, device: str = "cuda") -> None:
        self._live = live
        self._device = device
        self._scaler: Any = None
        self._updated = False
        self._unscaled: set[int] = set()
        self._inside = False

    def install(self) -> None:
        """Take hold of backward passes, clipping and optimizer steps."""
        import torch

        self._live.on_backward(self._backward)
        self._live.on_optimizer_made(self._optimizer)
        for name in _CLIPPING:
            original = getattr(torch.nn.utils, name)
            replaced = self._clipping(original)
            self._live.set(torch.nn.utils, name, replaced)
            self._live.set(torch.nn.utils.clip_grad, name, replaced)
            self._live.set_in_user_modules(name, original, replaced)

    @property
    def scaler(self) -> Any:
        """Made when first needed, so that a capture's fakes are its tensors."""
        import torch

        if self._scaler is None:
            self._scaler = torch.amp.GradScaler(self._device)
        return self._scaler

    def _backward(self, called: Callable[..., Any]) -> Callable[..., Any]:
        def backward(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if self._updated:  # all optimizers have taken their step since
                self.scaler.update()
                self._updated = False
                self._unscaled.clear()
            return called(self.scaler.scale(tensor), *args, **kwargs)

        return backward

    def _optimizer(self, optimizer: Any) -> None:
        original = optimizer.step

        def step(*args: Any, **kwargs: Any) -> Any:
            if self._inside or self._scaler is None:
                return original(*args, **kwargs)
            self._inside = True
            try:
                self._unscale(optimizer)
                made = self.scaler.step(optimizer, *args, **kwargs)
            finally:
                self._inside = False
            self._updated = True
            return made

        self._live.set(optimizer, "step", step)

    def _clipping(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def clip(*args: Any, **kwargs: Any) -> Any:
            if self._scaler is not None:
                for optimizer in self._live.optimizers:
                    self._unscale(optimizer)
            return original(*args, **kwargs)

        return clip

    def _unscale(self, optimizer: Any) -> None:
        if id(optimizer) in self._unscaled:
            return
        if any(p.grad is not None for g in optimizer.param_groups for p in g["params"]):
            self._unscaled.add(id(optimizer))
            self.scaler.unscale_(optimizer)
