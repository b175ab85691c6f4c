"""Whether a device takes a power limit: `--set power_limit=500W`, `--sweep power_limit=300..700W`.

`tdp` and `power` ask for another device, of which nothing is known; a limit is one that the driver
of this device must take.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from functools import lru_cache

from gpuscope.document.quantities import Watts
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.hardware.device import Device
from gpuscope.hardware.names import CATALOGUE

__all__ = ["check_power_limit", "limit_range_w"]

_NAME = "power_limit"


@lru_cache(maxsize=1)
def _ranges() -> dict[str, tuple[float, float]]:
    content = tomllib.loads((CATALOGUE / "power_limits.toml").read_text("utf-8"))
    return {name: (each["least_w"], each["most_w"]) for name, each in content.items()}


def limit_range_w(device: Device) -> tuple[float | None, float | None]:
    """The least and the most that its driver takes; None where nobody has stated it.

    Its power at rest stands for a least that is not stated: below that no clock helps.
    """
    least, most = _ranges().get(device.id, (None, None))
    return least if least is not None else device.idle_power_w, most


def check_power_limit(device: Device, asked: str, limits_w: Iterable[float]) -> None:
    """Refuse limits that this device's driver would not take.

    Args:
        device: as the catalogue has it.
        asked: as it was typed: "power_limit=500W"; anything else is no limit.
        limits_w: what was asked for.

    Raises:
        InvalidValueError: one below the least or above the most; a device that has no limit.
    """
    if asked.partition("=")[0].strip().lower() != _NAME:
        return
    if ":" in device.id or device.tdp_w is None:
        raise InvalidValueError(
            Text("{device} has no power limit of its own.", device=device.name),
            Text("The driver limits whole boards, whose power is known."),
            Text("Name a whole device, as in: --on h200"),
        )
    least, most = limit_range_w(device)
    for limit_w in limits_w:
        if (least is not None and limit_w < least) or (most is not None and limit_w > most):
            raise InvalidValueError(
                Text("{device} takes no power limit of {limit}.", device=device.name,
                     limit=Watts(limit_w)),
                Text("Its driver takes {least} to {most}.", least=Watts(least), most=Watts(most))
                if most is not None else
                Text("It draws {least} at rest.", least=Watts(least)),
                Text("Type a limit in between; another device is asked for by --set tdp=900W."),
            )  # fmt: skip
