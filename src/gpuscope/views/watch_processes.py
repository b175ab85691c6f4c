"""Who is on the devices: one line a process, most memory first."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from gpuscope.document import format as units
from gpuscope.measurement.sensors.types import ProcessUse
from gpuscope.views.i18n import tr
from gpuscope.views.watch_rows import Cell, Draw, Row, Rows, share_bar
from gpuscope.watch.history import History
from gpuscope.watch.types import DeviceSample

Use = tuple[str, DeviceSample, ProcessUse]

LONGEST_NAME = 40
"""Characters of a program's name that are shown."""


def process_rows(history: History) -> list[Use]:
    """Every process of every device, most memory first; what holds an unknown amount last."""
    rows = [
        (host, device, process)
        for host in history.hosts
        if host not in history.silent
        for device in history.latest(host).devices
        for process in device.reading.processes or ()
    ]
    return sorted(rows, key=lambda row: (-(row[2].memory_bytes or -1), row[2].pid))


def process_table(history: History, lang: str, most: int | None = None) -> list[RenderableType]:
    """Return the table of processes, with its heading; [] where no device tells of any.

    Args:
        history: what was read.
        lang: "en" or "zh".
        most: lines at most; the rest is counted.
    """
    devices = [d for host in history.hosts for d in history.latest(host).devices]
    if all(d.reading.processes is None for d in devices):
        return []
    rows = process_rows(history)
    heading = Text(tr("Processes", lang), style="bold")
    if not rows:
        return [Text(), heading, Text(tr("No process is on a device.", lang), style="dim")]
    hosts = len(history.hosts) > 1
    titles = ("GPU", tr("process", lang), tr("program", lang), tr("device memory", lang), "")
    heads = (*((tr("host", lang),) if hosts else ()), *titles)
    lines = [Row(tuple(((head, "dim"),) for head in heads))]
    for host, device, process in rows[:most]:
        lines.append(Row((*((((host, ""),),) if hosts else ()), *_cells(device, process, lang))))
    first = 1 if hosts else 0
    right = frozenset(first + n for n in (0, 1, 3))
    parts: list[RenderableType] = [Text(), heading, Rows(lines, right=right, prefer=16)]
    left = len(rows) - (most or len(rows))
    if left > 0:
        parts.append(Text(tr("and {count} more", lang, count=left), style="dim"))
    return parts


def _cells(device: DeviceSample, process: ProcessUse, lang: str) -> list[Cell | Draw]:
    total, held = device.reading.memory_total_bytes, process.memory_bytes
    bar: Cell | Draw = share_bar(held / total, "green") if held and total else ()
    name = process.name or "–"
    if len(name) > LONGEST_NAME:
        name = name[: LONGEST_NAME - 1] + "…"
    return [
        ((str(device.info.index), ""),),
        ((str(process.pid), ""),),
        ((name, ""),),
        ((units.size(held, lang), ""),),
        bar,
    ]
