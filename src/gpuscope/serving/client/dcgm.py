"""What NVIDIA's DCGM exporter says of the devices beside a server, over a run.

It is asked at an address of its own (`--dcgm http://host:9400`), and tells of every device of its
machine, whoever uses it. Its pages are as old as its last look: 30 s by default (`dcgm-exporter
--collect-interval`, milliseconds). Energy therefore is the counter's growth between the first and
the last page on which it moved, as power, times the run; with less than two there is none.
Units as its default-counters.csv has them: W, mJ, %, MiB.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from gpuscope.document.text import Text
from gpuscope.serving.client.address import parse_address
from gpuscope.serving.client.failure import ServerError
from gpuscope.serving.client.probe import PATIENCE_S, Door
from gpuscope.serving.client.scrape import EVERY_S, MOST_PAGES, can_read
from gpuscope.serving.result import Serving

POWER = "DCGM_FI_DEV_POWER_USAGE"
ENERGY = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
BUSY = "DCGM_FI_DEV_GPU_UTIL"
USED = "DCGM_FI_DEV_FB_USED"

_BLANK = 2.0**47
"""From here on a value is DCGM's way to say that there is none."""


@dataclass(slots=True)
class Moment:
    """One page, read.

    Attributes:
        at_s: when it came.
        values: by field and device (its UUID, or number), in DCGM's units.
    """

    at_s: float
    values: dict[str, dict[str, float]] = field(default_factory=dict)

    def total(self, name: str) -> float | None:
        """Of all devices; None where the page does not say."""
        found = self.values.get(name)
        return sum(found.values()) if found else None


def read_moment(at_s: float, text: str) -> Moment:
    """Read a page; one that is none is empty."""
    from prometheus_client.parser import text_string_to_metric_families

    moment = Moment(at_s)
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                name = sample.name.removesuffix("_total")
                if name in (POWER, ENERGY, BUSY, USED) and 0 <= sample.value < _BLANK:
                    labels = sample.labels
                    device = labels.get("UUID") or labels.get("gpu", "")
                    if name == USED:  # a slice of a device has memory of its own
                        device += labels.get("GPU_I_ID", "")
                    each = moment.values.setdefault(name, {})
                    # One device may be told of for each slice and each who uses it.
                    each[device] = max(each.get(device, 0.0), sample.value)
    except (ValueError, KeyError, IndexError):
        return Moment(at_s)
    return moment


def mean_power_w(moments: Sequence[Moment]) -> float | None:
    """By the energy counter, between the first and last moment at which it moved.

    None where it did not move twice, was set back, or devices came and went.
    """
    told = [each for each in moments if each.values.get(ENERGY)]
    if len({frozenset(each.values[ENERGY]) for each in told}) != 1:
        return None
    millijoules = [sum(each.values[ENERGY].values()) for each in told]
    moved = [at for at in range(1, len(told)) if millijoules[at] != millijoules[at - 1]]
    if len(moved) < 2 or any(millijoules[at] < millijoules[at - 1] for at in moved):
        return None
    first, last = moved[0], moved[-1]
    span_s = told[last].at_s - told[first].at_s
    return (millijoules[last] - millijoules[first]) / 1e3 / span_s if span_s > 0 else None


def summed_up(moments: Sequence[Moment]) -> dict[str, float | str]:
    """What is known of the devices; only what the pages hold.

    Returns:
        "devices", "device_power_w" (mean, all together), "device_busy" (mean share of time in
        which a kernel ran, over the devices), "device_memory_bytes" (most, all together).
    """
    found: dict[str, float | str] = {}
    power, used, busy = (
        [each for m in moments if (each := m.total(name)) is not None]
        for name in (POWER, USED, BUSY)
    )
    devices = max((len(m.values.get(BUSY) or m.values.get(POWER, {})) for m in moments), default=0)
    if devices:
        found["devices"] = float(devices)
    watts = mean_power_w(moments)
    if watts is not None or power:
        found["device_power_w"] = sum(power) / len(power) if watts is None else watts
    if busy:
        shares = [m.total(BUSY) for m in moments]
        counts = [len(m.values.get(BUSY, ())) for m in moments]
        found["device_busy"] = sum(s or 0.0 for s in shares) / sum(counts) / 100
    if used:
        found["device_memory_bytes"] = max(used) * 2**20
    return found


@dataclass(slots=True)
class Exporter:
    """Looks at an exporter during a run.

    Attributes:
        door: to it.
        pages: as they came, each with its moment.
    """

    door: Door
    pages: list[tuple[float, bytes]] = field(default_factory=list)

    async def look(self) -> None:
        """Keep what it says now, if anything."""
        reply = await self.door.get("/metrics")
        if reply is not None and reply.status == 200 and reply.body:
            self.pages.append((time.perf_counter(), bytes(reply.body)))

    async def keep_looking(self) -> None:
        """Until it is told to end."""
        while len(self.pages) < MOST_PAGES:
            await asyncio.sleep(EVERY_S)
            await self.look()

    def moments(self) -> list[Moment]:
        """All pages, read."""
        return [read_moment(at, page.decode("utf-8", "replace")) for at, page in self.pages]

    def added_to(self, found: Serving, wall_s: float) -> Serving:
        """A run with what was seen of the devices; joules of the machine's own sensors stay."""
        moments = self.moments()
        watts = mean_power_w(moments)
        energy_j, notes = found.energy_j, list(found.notes)
        if energy_j is None and watts is not None:
            energy_j = watts * wall_s
        elif energy_j is None and any(each.values.get(ENERGY) for each in moments):
            notes.append(
                Text(
                    "DCGM's exporter counted energy anew less than twice in the run: no joules. "
                    "Start it with --collect-interval 1000, or let the run last longer."
                )
            )
        server = {**found.server, **summed_up(moments)}
        return replace(found, server=server, energy_j=energy_j, notes=tuple(notes))


async def exporter(url: str) -> Exporter:
    """Reach an exporter.

    Args:
        url: "http://host:9400", with or without "/metrics". No key is sent to it.

    Raises:
        InvalidValueError: it is no address.
        ServerError: nobody is there, or it tells of no device.
    """
    address = parse_address(url)
    address = replace(address, path=address.path.removesuffix("/metrics"))
    wrong = partial(ServerError, Text("{url} tells of no device.", url=f"{address}/metrics"))
    if not can_read():
        raise wrong(
            Text("What reads its pages is not installed."),
            Text('Type: pip install "gpuscope[exporter]"'),
        )
    found = Exporter(Door(address, address.context(), "", PATIENCE_S))
    await found.look()
    if not any(each.values for each in found.moments()):
        raise wrong(
            Text("It has no figures of DCGM.") if found.pages else Text("The connection failed."),
            Text("Is it DCGM's exporter? Try: curl {url}/metrics", url=str(address)),
        )
    found.pages.clear()
    return found
