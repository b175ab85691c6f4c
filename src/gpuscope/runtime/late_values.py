"""`late`: a value of the step before, so that the host need not wait for this step's.

For what is only looked at (printed, logged): the value is copied while the device works on, and is
read one step later, when it has long arrived.
"""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["forget", "late"]

_KEPT: dict[tuple[object, int], tuple[Any, Any]] = {}
"""(copy, event after it) of the last call, by the line that called."""


def late(value: Any) -> Any:
    """The number that this line's value was one call ago; the first time, this one.

    Args:
        value: a tensor of one element; anything else is given back.
    """
    import torch

    if not isinstance(value, torch.Tensor):
        return value
    if value.device.type != "cuda":
        return value.item()
    frame = sys._getframe(1)
    place = frame.f_code, frame.f_lineno
    copy = torch.empty(value.shape, dtype=value.dtype, pin_memory=True)
    copy.copy_(value.detach(), non_blocking=True)
    event: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record()
    before = _KEPT.get(place)
    _KEPT[place] = (copy, event)
    if before is None or _world(before[0]) is not _world(copy):
        before = copy, event
    before[1].synchronize()
    return before[0].item()


def _world(tensor: Any) -> Any:
    """The capture that a fake belongs to; None for a real tensor."""
    return getattr(tensor, "fake_mode", None)


def forget() -> None:
    """Drop what was kept."""
    _KEPT.clear()
