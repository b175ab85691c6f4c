"""A step in several parts: gradients of smaller batches are added before one update.

What belongs to the update (the optimizer, clipping, the scaler, the schedule) happens in the last
part, gradients are cleared in the first, and each loss counts for its share of the mean.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live, Step

__all__ = ["Accumulating"]


class Accumulating:
    """Runs a step's parts; told to live code by `install`.

    Args:
        parts: how many.
    """

    def __init__(self, parts: int) -> None:
        self.parts = parts
        self._left: int | None = None
        """Parts of this step that are still to come; None between steps."""

    def install(self, live: Live) -> None:
        """Take hold of everything that belongs to an update."""
        import torch

        live.on_step(self._stepped)
        live.on_backward(self._shared)
        live.on_optimizer_made(self._gate_optimizer)
        live.set(torch.nn.Module, "zero_grad", self._first(torch.nn.Module.zero_grad))
        for owner, names in (
            (torch.amp.GradScaler, ("step", "update", "unscale_")),
            (torch.optim.lr_scheduler.LRScheduler, ("step",)),
        ):
            for name in names:
                live.set(owner, name, self._last(getattr(owner, name)))
        clips = torch.nn.utils
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            original = getattr(clips, name)
            gated = self._last(original, instead=_no_norm)
            live.set(clips, name, gated)
            live.set_in_user_modules(name, original, gated)

    def _stepped(self, step: Step) -> Step:
        def whole() -> object:
            out: object = None
            try:
                for left in reversed(range(self.parts)):
                    self._left = left
                    out = step()
            finally:
                self._left = None
            return out

        return functools.update_wrapper(whole, step)

    def _shared(self, backward: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(backward)
        def shared(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            share = tensor if self._left is None else tensor / self.parts
            return backward(share, *args, **kwargs)

        return shared

    def _gate_optimizer(self, optimizer: Any) -> None:
        # A schedule wraps the bound method that it finds there.
        optimizer.step = types.MethodType(self._last(type(optimizer).step), optimizer)
        optimizer.zero_grad = types.MethodType(self._first(type(optimizer).zero_grad), optimizer)

    def _last(self, original: Callable[..., Any], instead: Any = None) -> Callable[..., Any]:
        """Only in the last part."""

        @functools.wraps(original)
        def gated(*args: Any, **kwargs: Any) -> Any:
            if not self._left:
                return original(*args, **kwargs)
            return instead(*args, **kwargs) if instead is not None else None

        return gated

    def _first(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Only in the first part."""

        @functools.wraps(original)
        def gated(*args: Any, **kwargs: Any) -> Any:
            begins = self._left in (None, self.parts - 1)
            return original(*args, **kwargs) if begins else None

        return gated


def _no_norm(*_: Any, **__: Any) -> Any:
    """The norm of nothing clipped."""
    import torch

    return torch.zeros(())
