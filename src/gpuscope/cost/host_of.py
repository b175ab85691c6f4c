"""For which host a prediction holds: the catalogue's, unless the machine's own was benched."""

from __future__ import annotations

from gpuscope.document.text import Text
from gpuscope.hardware import Calibration

__all__ = ["PACE", "catalogue_host"]

PACE = 0.8
"""Whose host works for this share of a step or more, and its device for less: the host's pace."""


def catalogue_host(
    constants: Calibration, step_s: float, host_s: float | None, device_s: float
) -> Text | None:
    """What to say where the step goes at the pace of a host that is not the reader's own.

    Args:
        constants: that the step was predicted with.
        step_s: the step.
        host_s: how long its host works.
        device_s: how long its device works.

    Returns:
        None where the device sets the pace, or where the constants come from a bench of the host.
    """
    if not host_s or host_s < PACE * step_s or device_s >= PACE * step_s:
        return None
    if "host.scale" not in constants or constants.origin("host.scale") != "estimated":
        return None
    scale = constants.entry("host.scale")
    return Text(
        "The host is the catalogue's (a Xeon at 2.1 GHz in a virtual machine); others take {low} "
        "to {high} times as long. Yours: gpuscope bench --only host --save, then --on this.",
        low=f"{scale.low / scale.value:.1f}",
        high=f"{scale.high / scale.value:.1f}",
    )
