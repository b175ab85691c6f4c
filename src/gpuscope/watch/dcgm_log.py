"""Tables that `dcgmi dmon` printed, told as samples: a line a device, moment after moment.

Format: NVIDIA DCGM, `dcgmi dmon -e 203,155,1002,1004,1005 -d 1000`: a header "#Entity" with short
names of the fields, a line of units that begins with "ID", then "GPU 0" and its figures; the header
comes again every few lines. It tells neither times nor names of devices; "N/A" is not available.
"""

from __future__ import annotations

import re
from typing import Any

from gpuscope.document.quantities import Seconds
from gpuscope.document.text import Text
from gpuscope.document.typed import MisfitError
from gpuscope.measurement.sensors.types import Reading, SensorInfo
from gpuscope.outside import limits
from gpuscope.watch.device_log import WHOLE, OpenSample, log_names
from gpuscope.watch.types import Activity, DeviceSample, Sample

PERIOD_S = 1.0
"""Between two moments where `-d` says nothing else."""

_HEADER = re.compile(r"^#\s*Entity\b")
_NUMBER = re.compile(r"^-?\d{1,18}(?:\.\d{1,18})?(?:e[+-]?\d{1,2})?$")
_LINE = re.compile(r"^GPU (\d{1,4})\s+(.*)$")


def is_dcgm_log(line: str) -> bool:
    """Return whether a file's first line is the header of such a table."""
    names = line.split()[1:] if _HEADER.match(line) else []
    return not log_names()["dcgm"].keys().isdisjoint(names)


class DcgmLog(OpenSample):
    """Turns the lines of one table into samples; a sample is whole once a device comes again."""

    def __init__(self, header: str, host: str) -> None:
        """Begin.

        Args:
            header: the first line (see `is_dcgm_log`).
            host: what to call the host, which such a table does not name.
        """
        super().__init__(host)
        self._columns = header.split()[1:]
        self._moment = 0
        self._notes = (
            Text(
                "A table of dcgmi dmon: it tells no times; a moment is taken to last {period}.",
                period=Seconds(PERIOD_S),
            ),
        )

    def add(self, line: str) -> Sample | None:
        """Take a line; return the sample that it ends, None where it ends none.

        Raises:
            MisfitError: it is not a line of this table.
        """
        if _HEADER.match(line) or line.split()[:1] == ["ID"]:
            return None
        found = _LINE.match(line.strip())
        if found is None:
            raise MisfitError("", Text("not a line of a device"))
        index, cells = int(found[1]), found[2].split()
        if len(cells) != len(self._columns):
            raise MisfitError("", Text("it has another number of columns than the first line"))
        if index >= limits.PARTIES:
            raise MisfitError("", Text("more devices than any host has"))
        ended = self.last() if self.holds(index) else None
        self._moment += ended is not None
        at_s = self._moment * PERIOD_S
        info = SensorInfo("nvidia", index, f"GPU {index}", notes=self._notes)
        figures = self._figures(cells)
        reading = Reading(at_s, **figures["reading"])
        self.put(index, at_s, DeviceSample(info, reading, Activity(**figures["activity"])))
        return ended

    def _figures(self, cells: list[str]) -> dict[str, dict[str, Any]]:
        known = log_names()["dcgm"]
        found: dict[str, dict[str, Any]] = {"reading": {}, "activity": {}}
        for name, cell in zip(self._columns, cells, strict=True):
            number = _NUMBER.match(cell)
            if name in known and number is not None:
                part, figure, scale = known[name]
                value = float(number[0]) * scale
                found[part].setdefault(figure, int(value) if figure in WHOLE else value)
        return found
