"""Who else is on the device that is measured."""

from __future__ import annotations

import os
from collections.abc import Sequence

from gpuscope.document.text import Text, joined
from gpuscope.measurement.accelerator import Accelerator
from gpuscope.measurement.sensors import Sensor

__all__ = ["others_on"]


def others_on(sensor: Sensor | None, accelerator: Accelerator) -> Sequence[str]:
    """Say who else is on the device, before this process has work there."""
    if sensor is None:
        return ()
    reading = sensor.read(processes=True)
    running = reading.processes or ()
    own = os.getpid()
    if accelerator.begun() and not any(each.pid == own for each in running):
        return ()  # the driver numbers processes otherwise: ours cannot be told from others
    others = [each for each in running if each.pid != own]
    if not others:
        return ()
    names = joined(
        Text("{name} (pid {pid})", name=each.name or Text("a process"), pid=each.pid)
        for each in others[:3]
    )
    return (
        Text(
            "The device is not ours alone: {names}. Times may be longer than they need be.",
            names=names,
        ),
    )
