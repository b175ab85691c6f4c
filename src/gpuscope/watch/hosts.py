"""Samples of other hosts, read from their exporters (`gpuscope watch --serve`).

A host that does not answer is shown with its last figures gone, and told in `notes`: one that is
down must not keep the others waiting. Needs the package `prometheus_client` (extra `exporter`).
"""

from __future__ import annotations

import base64
import netrc
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from gpuscope.document.printable import harmless, one_line
from gpuscope.document.text import Text, joined
from gpuscope.errors import InvalidValueError, require_package
from gpuscope.measurement.sensors.types import ProcessUse, Reading, SensorInfo
from gpuscope.watch import metrics
from gpuscope.watch.source import check_interval
from gpuscope.watch.types import Activity, DeviceSample, Sample

TIMEOUT_S = 2.0
"""A host that takes longer is passed over this time."""

MOST_BYTES = 16 << 20
"""Of one answer; more is no exporter of ours."""

ACCEPT = "application/openmetrics-text; version=1.0.0"

Fetch = Callable[[str], str]


class Hosts:
    """A `Source`: exporters of several hosts, asked at the same time."""

    def __init__(
        self, addresses: Sequence[str], *, interval_s: float = 2.0, fetch: Fetch | None = None
    ) -> None:
        """Prepare; nothing is asked yet.

        Args:
            addresses: "host:port" (port 9400 where it is left out).
            interval_s: seconds between questions.
            fetch: gets the text of an address; another in tests.

        Raises:
            InvalidValueError: an address is malformed, there is none, or the interval is too short.
            MissingPackageError: `prometheus_client` is not installed.
        """
        require_package("prometheus_client", Text("Reading other hosts"), "exporter")
        self._urls = {address: url_of(address) for address in addresses}
        if not self._urls:
            raise InvalidValueError(
                Text("There is no host to ask."), "", Text("Type: --hosts a:9400,b:9400")
            )
        check_interval(interval_s)
        self._interval_s = interval_s
        self._fetch = fetch or fetch_text
        self._failures: dict[str, str] = {}
        self._pool = ThreadPoolExecutor(min(len(self._urls), 32), thread_name_prefix="hosts")

    @property
    def interval_s(self) -> float:
        """Seconds between questions."""
        return self._interval_s

    @property
    def notes(self) -> tuple[str, ...]:
        """The hosts that did not answer last time, and why."""
        return tuple(joined(each, ": ") for each in sorted(self._failures.items()))

    def read(self) -> tuple[Sample, ...]:
        """Ask every host; those that answer, in the order that they were given."""
        answers = self._pool.map(self._one, self._urls.items())
        return tuple(sample for found in answers for sample in found)

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _one(self, named: tuple[str, str]) -> tuple[Sample, ...]:
        address, url = named
        try:
            found = read_exposition(self._fetch(url))
            if not found:
                raise ValueError("no samples of gpuscope")
        except (OSError, ValueError, urllib.error.URLError) as error:
            cause = getattr(error, "reason", error)
            self._failures[address] = str(getattr(cause, "strerror", None) or cause)
            return ()
        self._failures.pop(address, None)
        return found


def url_of(address: str) -> str:
    """Return where an exporter's figures are: "a", "a:9400" or a whole URL.

    Raises:
        InvalidValueError: it is none of these.
    """
    text = address.strip()
    if text.startswith(("http://", "https://")):
        return text if text.rstrip("/").endswith("/metrics") else f"{text.rstrip('/')}/metrics"
    host, colon, port = text.rpartition(":") if not text.endswith("]") else (text, "", "")
    host, port = (host, port) if colon else (text, "9400")
    if not host or not port.isdigit() or int(port) > 65535 or any(c in host for c in " /@?#"):
        raise InvalidValueError(
            Text("'{address}' is not a host.", address=address),
            Text("It is HOST or HOST:PORT."),
            Text("Type: --hosts a:9400,b:9400"),
        )
    return f"http://{host}:{port}/metrics"


def _login(url: str) -> dict[str, str]:
    """The login of ~/.netrc for a host, as a header; never over an open line to another machine."""
    parts = urllib.parse.urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme != "https" and host not in ("localhost", "127.0.0.1", "::1"):
        return {}
    try:
        found = netrc.netrc().authenticators(host)
    except (OSError, netrc.NetrcParseError):
        return {}
    if found is None:
        return {}
    both = base64.b64encode(f"{found[0]}:{found[2]}".encode()).decode()
    return {"Authorization": f"Basic {both}"}


def fetch_text(url: str) -> str:
    """Return what an exporter answers.

    Raises:
        OSError: it does not answer in time, or answers with an error.
        ValueError: the answer is too long or no text.
    """
    request = urllib.request.Request(url, headers={"Accept": ACCEPT, **_login(url)})
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
        content: bytes = answer.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError("the answer is too long")
    text = content.decode("utf-8")
    # The plain format lacks the end mark that the reader asks for.
    return text if text.rstrip().endswith("# EOF") else f"{text.rstrip()}\n# EOF\n"


@dataclass(slots=True)
class _Parts:
    """A device's figures as they are found."""

    labels: Mapping[str, str]
    info: dict[str, str] = field(default_factory=dict)
    reading: dict[str, Any] = field(default_factory=dict)
    activity: dict[str, float] = field(default_factory=dict)
    reasons: set[str] = field(default_factory=set)
    throttled: bool | None = None
    throttled_s: dict[str, float] = field(default_factory=dict)
    processes: list[ProcessUse] = field(default_factory=list)


def read_exposition(text: str) -> tuple[Sample, ...]:
    """Return the samples that an exporter's text holds, one a host; () where it holds none.

    Args:
        text: OpenMetrics, as `gpuscope.watch.exporter` writes it; other metrics are passed over.

    Raises:
        ValueError: it is not OpenMetrics.
    """
    devices: dict[tuple[str, str], _Parts] = {}
    hosts: dict[str, dict[str, float]] = {}
    for name, labels, value in _values(text):
        host = labels.get("host")
        if host is None or name not in metrics.METRICS:
            continue
        hosts.setdefault(host, {})
        if "index" not in labels:
            hosts[host][name] = value
            continue
        parts = devices.setdefault((host, labels["index"]), _Parts(labels))
        _take(parts, name, labels, value)
    return tuple(_sample(host, given, devices) for host, given in hosts.items())


def _values(text: str) -> Iterable[tuple[str, Mapping[str, str], float]]:
    from prometheus_client.openmetrics import parser

    families: Callable[[str], Iterable[Any]] = parser.text_string_to_metric_families
    for family in families(text):
        for sample in family.samples:
            yield sample.name, sample.labels, float(sample.value)


_FIELDS = {m.name: m.field for m in metrics.DEVICE_FIGURES if m.field is not None}
_WHOLE = frozenset({"memory_used_bytes", "memory_total_bytes", "pcie_generation", "pcie_width"})


def _take(parts: _Parts, name: str, labels: Mapping[str, str], value: float) -> None:
    where = _FIELDS.get(name)
    if where is not None:
        kept = parts.reading if where[0] == "reading" else parts.activity
        kept[where[1]] = int(value) if where[1] in _WHOLE else value
    elif name == metrics.DEVICE_INFO.name:
        parts.info.update(labels)
    elif name == metrics.THROTTLED.name:
        parts.throttled = value > 0
    elif name == metrics.THROTTLE_REASON.name and value > 0:
        parts.reasons.add(labels["reason"])
    elif name == metrics.THROTTLE_SECONDS.name:
        parts.throttled_s[labels["reason"]] = value
    elif name == metrics.PROCESS_MEMORY.name:
        parts.processes.append(
            ProcessUse(int(labels["pid"]), labels.get("process", ""), int(value))
        )


def _sample(
    host: str, facts: Mapping[str, float], devices: Mapping[tuple[str, str], _Parts]
) -> Sample:
    mine = [parts for (name, _), parts in devices.items() if name == host]
    found = sorted((_device(parts) for parts in mine), key=lambda d: d.info.index)
    unix_s = facts.get(metrics.SAMPLE_TIME.name, time.time())
    # Whoever answers at another host's port says what he likes.
    return Sample(unix_s, one_line(host), harmless(tuple(found)), facts.get(metrics.HOST_CPU.name))


def _device(parts: _Parts) -> DeviceSample:
    labels = {**parts.labels, **parts.info}
    info = SensorInfo(
        labels.get("vendor", ""),
        int(labels["index"]),
        labels.get("name", ""),
        labels.get("uuid", ""),
        labels.get("driver", ""),
        labels.get("slice", "") == "true",
    )
    reasons = None if parts.throttled is None else tuple(sorted(parts.reasons))
    reading = Reading(
        time_s=time.perf_counter(),
        throttle_reasons=reasons,
        throttled_s=parts.throttled_s or None,
        processes=tuple(parts.processes),
        **parts.reading,
    )
    return DeviceSample(info, reading, Activity(**parts.activity))
