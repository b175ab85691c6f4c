"""What stands in a scrape: the newest samples of each host as families of metrics."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuscope import __version__
from gpuscope.document.printable import one_line
from gpuscope.measurement.sensors.types import ProcessUse, Sensor, SensorInfo
from gpuscope.watch import metrics
from gpuscope.watch.health import Health
from gpuscope.watch.metrics import Metric
from gpuscope.watch.owners import NOBODY, FindOwners, Owner
from gpuscope.watch.types import DeviceSample, Sample, Verdict

ReadHealth = Callable[[SensorInfo], Health | None]
"""Says how a device of this host is."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """A host's newest sample, and what was found out with it."""

    sample: Sample
    verdicts: tuple[Verdict | None, ...]
    owners: dict[int, Owner]
    health: tuple[Health | None, ...]
    at: float
    package_j: float | None = None


@dataclass(slots=True)
class _Families:
    """Families of the client library by metric, made when their first sample comes."""

    made: dict[str, Any] = field(default_factory=dict)

    def add(self, metric: Metric, labels: Sequence[str], value: float) -> None:
        """Add a sample."""
        self._family(metric).add_metric(list(map(one_line, labels)), value)

    def add_state(self, metric: Metric, labels: Sequence[str], state: str) -> None:
        """Add a state set with one state on."""
        states = {name: name == state for name in metrics.VERDICTS}
        self._family(metric).add_metric(list(map(one_line, labels)), states)

    def _family(self, metric: Metric) -> Any:
        from prometheus_client import core

        if metric.name not in self.made:
            kinds: dict[str, Any] = {
                "gauge": core.GaugeMetricFamily,
                "counter": core.CounterMetricFamily,
            }
            if metric.kind == "stateset":
                labels = [name for name in metric.labels if name != metric.name]
                made = core.StateSetMetricFamily(metric.name, metric.about, labels=labels)
            else:
                made = kinds[metric.kind](
                    metric.family, metric.about, labels=list(metric.labels), unit=metric.unit
                )
            self.made[metric.name] = made
        return self.made[metric.name]


class Collector:
    """Keeps the newest samples; gives them when the client library asks."""

    def __init__(
        self,
        stale_s: float,
        find_owners: FindOwners | None = None,
        package: Sensor | None = None,
        read_health: ReadHealth | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start without samples.

        Args:
            stale_s: samples that came longer ago are not given.
            find_owners: says whose processes are; None for nobody's.
            package: sensor of the host's processors, read with each sample.
            read_health: says how a device is; None for not read.
            clock: another in tests.
        """
        self._stale_s = stale_s
        self._find_owners = find_owners
        self._package = package
        self._read_health = read_health
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}

    def update(self, sample: Sample, verdicts: Sequence[Verdict | None] = ()) -> None:
        """Give this sample from now on, instead of its host's before."""
        every = [p for d in sample.devices for p in d.reading.processes or ()]
        owners = self._find_owners(every) if self._find_owners else {}
        package_j = self._package.read().energy_j if self._package else None
        read = self._read_health or (lambda info: None)
        health = tuple(read(device.info) for device in sample.devices)
        kept = _Kept(sample, tuple(verdicts), owners, health, self._clock(), package_j)
        with self._lock:
            self._kept[sample.host] = kept

    def collect(self) -> Iterator[Any]:
        """Yield the families of metrics that have a sample."""
        oldest = self._clock() - self._stale_s
        with self._lock:
            self._kept = {host: kept for host, kept in self._kept.items() if kept.at >= oldest}
            every = [self._kept[host] for host in sorted(self._kept)]
        families = _Families()
        families.add(metrics.EXPORTER_INFO, [__version__], 1)
        for kept in every:
            _host(families, kept)
        # Families in the order of the list, whatever came first.
        yield from (families.made[name] for name in metrics.METRICS if name in families.made)


def _host(families: _Families, kept: _Kept) -> None:
    sample = kept.sample
    families.add(metrics.SAMPLE_TIME, [sample.host], sample.unix_s)
    families.add(metrics.HOST_DEVICES, [sample.host], len(sample.devices))
    if sample.host_cpu is not None:
        families.add(metrics.HOST_CPU, [sample.host], sample.host_cpu)
    if kept.package_j is not None:
        families.add(metrics.HOST_ENERGY, [sample.host], kept.package_j)
    seen: set[int] = set()
    for place, device in enumerate(sample.devices):
        if device.info.index in seen:  # two series of one name would spoil the whole scrape
            continue
        seen.add(device.info.index)
        labels = [sample.host, str(device.info.index), device.info.uuid, device.info.name]
        _device(families, device, kept.health[place], labels)
        verdict = kept.verdicts[place] if place < len(kept.verdicts) else None
        if verdict is not None:
            families.add_state(metrics.VERDICT, labels, verdict.kind)
            families.add(metrics.VERDICT_CERTAINTY, labels, verdict.sure)
        _processes(families, device.reading.processes or (), kept.owners, labels)


def _device(
    families: _Families, device: DeviceSample, health: Health | None, labels: list[str]
) -> None:
    info, reading = device.info, device.reading
    families.add(
        metrics.DEVICE_INFO, [*labels, info.vendor, info.driver, str(info.slice).lower()], 1
    )
    for metric in (*metrics.DEVICE_FIGURES, *metrics.HEALTH_FIGURES):
        value = metric.value(device, health)
        if value is not None:
            families.add(metric, labels, value)
    if reading.throttle_reasons is not None:
        families.add(metrics.THROTTLED, labels, bool(reading.throttle_reasons))
        for reason in sorted(set(reading.throttle_reasons)):
            families.add(metrics.THROTTLE_REASON, [*labels, reason], 1)
    for reason, seconds in sorted((reading.throttled_s or {}).items()):
        families.add(metrics.THROTTLE_SECONDS, [*labels, reason], seconds)


def _processes(
    families: _Families,
    processes: Sequence[ProcessUse],
    owners: dict[int, Owner],
    labels: list[str],
) -> None:
    """One series a process; a driver may list one twice (by engine), which adds up."""
    held: dict[int, int] = {}
    names: dict[int, str] = {}
    for process in processes:
        if process.memory_bytes is not None:
            held[process.pid] = held.get(process.pid, 0) + process.memory_bytes
            names.setdefault(process.pid, process.name)
    for pid, memory_bytes in sorted(held.items()):
        owner = owners.get(pid, NOBODY)
        families.add(
            metrics.PROCESS_MEMORY,
            [
                *labels,
                str(pid),
                names[pid],
                owner.container,
                owner.slurm_job_id,
                owner.pod,
                owner.namespace,
            ],
            memory_bytes,
        )
