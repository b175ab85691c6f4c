"""Time a program's steps at their boundaries, on the host and on the device, without waiting.

A host that never waits runs ahead of its device: the times between its boundaries then say how fast
it issues steps, not how long they take. So an event is put into the device's current stream at each
boundary; when the device comes by, it notes the time. Nothing is read before the end.
"""

from __future__ import annotations

import itertools
import time
from typing import Any

MOST_EVENTS = 400
"""Events kept: those of the last boundaries; each holds a little of the driver's memory."""

WAIT_S = 2.0
"""Longest to wait at the end for the device to come by the last event: it may have hung."""


class StepClock:
    """Boundaries in a row."""

    def __init__(self) -> None:
        self._host_s: list[float] = []
        self._events: list[Any] = []

    def __len__(self) -> int:
        """Boundaries met so far."""
        return len(self._host_s)

    def clear(self) -> None:
        """Forget all of them."""
        self._host_s.clear()
        self._events.clear()

    def mark(self) -> float:
        """A boundary is here; returns its time on the host, in seconds."""
        now = time.perf_counter()
        self._host_s.append(now)
        self._events.append(_recorded_event())
        if len(self._events) > MOST_EVENTS:
            self._events[-MOST_EVENTS - 1] = None
        return now

    def host_intervals_s(self) -> list[float]:
        """Return the seconds between the boundaries, as the host met them."""
        return [b - a for a, b in itertools.pairwise(self._host_s)]

    def device_intervals_s(self) -> list[float | None]:
        """Return the seconds between the boundaries, as the device came by them.

        None for each that is not known: no device, or it has not come by within `WAIT_S`.
        """
        _await(self._events)
        return [_between_s(a, b) for a, b in itertools.pairwise(self._events)]


def _recorded_event() -> Any:
    """An event in the current stream; None without a device that is in use, or inside a capture."""
    module = _device_module()
    if module is None:
        return None
    try:
        event = module.Event(enable_timing=True)
        event.record()
    except RuntimeError:
        return None
    return event


def _device_module() -> Any:
    """`torch.cuda` or `torch.xpu`, whichever this process uses; None if neither.

    None also where the process has not touched its current device: an event would be the first to
    do so, and take memory there.
    """
    import torch

    cuda: Any = torch.cuda  # untyped in torch
    if cuda.is_initialized():
        touched = getattr(torch._C, "_cuda_hasPrimaryContext", None)
        if touched is not None and not touched(cuda.current_device()):
            return None
        return None if cuda.is_current_stream_capturing() else cuda
    xpu: Any = getattr(torch, "xpu", None)
    return xpu if xpu is not None and xpu.is_initialized() else None


def _await(events: list[Any]) -> None:
    """Wait for the last event, but not for ever."""
    last = next((event for event in reversed(events) if event is not None), None)
    end = time.monotonic() + WAIT_S
    while last is not None and not _passed(last) and time.monotonic() < end:
        time.sleep(0.01)


def _passed(event: Any) -> bool:
    try:
        return bool(event.query())
    except RuntimeError:  # the device has failed
        return False


def _between_s(first: Any, second: Any) -> float | None:
    if first is None or second is None or not (_passed(first) and _passed(second)):
        return None
    try:
        return float(first.elapsed_time(second)) * 1e-3
    except RuntimeError:  # of two devices
        return None
