"""Memory: what may be taken of each device's, as if it had no more."""

from __future__ import annotations

from dataclasses import replace

from gpuscope.document.quantities import Bytes
from gpuscope.document.text import Text
from gpuscope.hardware import Cluster
from gpuscope.planning.figures.registry import FIGURES, Figure, Measured, read

_UNITS = {"mb": 1e6, "gb": 1e9, "tb": 1e12, "mib": 2.0**20, "gib": 2.0**30, "tib": 2.0**40}


def _read(text: str) -> float:
    why = Text("Memory is in MB, GB, TB, MiB, GiB or TiB, of each device.")
    return read(text, _UNITS, why, "memory<60GiB")


def _of(each: Measured, steps: float) -> float | None:
    return None


def _capped(cluster: Cluster, most: float) -> Cluster:
    usable = min(cluster.device.memory_usable_bytes, int(most))
    return cluster.with_device(replace(cluster.device, memory_usable_bytes=usable))


FIGURES.add(
    "memory",
    Figure(
        name="memory",
        title=Text("memory of a device"),
        read=_read,
        shown=Bytes,
        of=_of,
        capped=_capped,
    ),
)
