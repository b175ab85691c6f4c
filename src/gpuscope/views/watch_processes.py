"""Who is on the devices: one line a process, most memory first."""

from __future__ import annotations

from rich.console import RenderableType
from rich.table import Column, Table
from rich.text import Text

from gpuscope.measure.sensors.types import ProcessUse
from gpuscope.views import units
from gpuscope.views.i18n import tr
from gpuscope.views.terminal.layout import Bar
from gpuscope.watch.history import History
from gpuscope.watch.types import DeviceSample

Row = tuple[str, DeviceSample, ProcessUse]


def process_rows(history: History) -> list[Row]:
    """Every process of every device, most memory first; what holds an unknown amount last."""
    rows = [
        (host, device, process)
        for host in history.hosts
        if host not in history.silent
        for device in history.latest(host).devices
        for process in device.reading.processes or ()
    ]
    return sorted(rows, key=lambda row: (-(row[2].memory_bytes or -1), row[2].pid))


def process_table(
    history: History, lang: str, width: int, most: int | None = None
) -> list[RenderableType]:
    """Return the table of processes, with its heading; [] where no device tells of any.

    Args:
        history: what was read.
        lang: "en" or "zh".
        width: columns that there are.
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
    table = _empty(lang, hosts, width)
    for host, device, process in rows[:most]:
        table.add_row(*([host] if hosts else []), *_cells(device, process, lang))
    parts: list[RenderableType] = [Text(), heading, table]
    left = len(rows) - (most or len(rows))
    if left > 0:
        parts.append(Text(tr("and {count} more", lang, count=left), style="dim"))
    return parts


def _empty(lang: str, hosts: bool, width: int) -> Table:
    columns = [Column(tr("host", lang), no_wrap=True, overflow="ellipsis")] if hosts else []
    columns += [
        Column("GPU", justify="right"), Column(tr("process", lang), justify="right", no_wrap=True),
        Column(tr("program", lang), no_wrap=True, overflow="ellipsis", ratio=1),
        Column(tr("device memory", lang), justify="right", no_wrap=True), Column("", min_width=6),
    ]  # fmt: skip
    return Table(
        *columns, box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", width=width
    )


def _cells(device: DeviceSample, process: ProcessUse, lang: str) -> list[RenderableType]:
    total = device.reading.memory_total_bytes
    held = process.memory_bytes
    bar: RenderableType = Bar(held / total, 12, "green", "░") if held and total else ""
    return [
        str(device.info.index), str(process.pid), Text(process.name or "–"),
        units.size(held, lang), bar,
    ]  # fmt: skip
