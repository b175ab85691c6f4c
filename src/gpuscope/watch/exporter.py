"""Samples for Prometheus: text over HTTP, in its own format or OpenMetrics, as the scraper asks.

One thread asks the source at its own pace; a scrape only writes down what was read last. So a
scrape costs the device nothing, however many scrapers there are, and however often they come.
What was read longer ago than `STALE_S` is not given: an old figure must not look like a new one.

    exporter = Exporter("127.0.0.1:9400", source)
    with exporter:
        exporter.wait()

Needs the package `prometheus_client` (extra `exporter`).
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, require_package
from gpuscope.measurement.sensors import open_sensor
from gpuscope.measurement.sensors.types import Sensor
from gpuscope.watch.exposition import Collector, ReadHealth
from gpuscope.watch.health import HealthReaders
from gpuscope.watch.history import History
from gpuscope.watch.owners import FindOwners, Owners
from gpuscope.watch.sampler import Sampler
from gpuscope.watch.source import EndOfSamples, Source
from gpuscope.watch.types import Sample, Verdict
from gpuscope.watch.web_server import Protection, WebServer
from gpuscope.watch.window import WINDOW_S

DEFAULT_PORT = 9400
"""The port that NVIDIA's exporter uses, so that scrape settings can stay."""

LOOPBACK = "127.0.0.1"

STALE_S = 30.0
"""Figures that were read longer ago are not given (or three intervals, where that is longer)."""

Judge = Callable[[Sample], Sequence[Verdict | None]]
"""Gives the verdicts on a sample's devices, in their order; remembers the samples before."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where the exporter listens.

    Attributes:
        host: a name or number; "" never stands for all.
        port: 0 lets the system choose.
        tls: it is reached by https.
    """

    host: str
    port: int
    tls: bool = False

    @property
    def open_to_others(self) -> bool:
        """Whether other machines may reach it."""
        return self.host not in ("localhost", "::1") and not self.host.startswith("127.")

    @property
    def url(self) -> str:
        """What a browser or a scraper is given."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self.tls else ''}://{host}:{self.port}/metrics"


def parse_address(text: str) -> Address:
    """Return the address that a user wrote: "9400", ":9400", "0.0.0.0:9400", "[::1]:9400".

    Without a host it is this machine alone.

    Raises:
        InvalidValueError: it is no address, or no port.
    """
    host, colon, port = text.strip().rpartition(":")
    if not colon:
        host, port = ("", text.strip()) if text.strip().isdigit() else (text.strip(), "")
    host = host.removeprefix("[").removesuffix("]")
    try:
        number = int(port) if port else DEFAULT_PORT
    except ValueError:
        number = -1
    if not 0 <= number <= 65535 or any(c.isspace() or c in "/[]" for c in host):
        raise InvalidValueError(
            Text("'{text}' is not an address.", text=text),
            Text("It is HOST:PORT, with a port from 0 to 65535."),
            Text(
                "Type: --serve :{default_port} (this machine) or --serve 0.0.0.0:{default_port} "
                "(all)",
                default_port=DEFAULT_PORT,
            ),
        )
    return Address(host or LOOPBACK, number)


def warning_of(address: Address, login: bool = False) -> Text | None:
    """Return what to tell a user who opens the exporter to others; None on loopback.

    Args:
        address: where it listens.
        login: it asks for a name and a password.
    """
    if not address.open_to_others or (login and address.tls):
        return None
    if login:
        return Text(
            "Whoever sees the traffic to {host} reads the password and the figures. Add --tls-cert "
            "and --tls-key.",
            host=address.host,
        )
    return Text(
        "Anyone who reaches {host} can read the figures, with process and job names; there is no "
        "password. Keep the port behind a firewall.",
        host=address.host,
    )


class Exporter:
    """Gives a source's samples to Prometheus until it is closed."""

    def __init__(
        self,
        address: str | Address,
        source: Source | None = None,
        *,
        judge: Judge | None = None,
        find_owners: FindOwners | None = None,
        package: Sensor | None = None,
        read_health: ReadHealth | None = None,
        on_samples: Callable[[tuple[Sample, ...]], None] | None = None,
        protection: Protection | None = None,
    ) -> None:
        """Prepare; nothing is opened before `start`.

        Args:
            address: where to listen.
            source: asked in a thread; None where samples come by `update`.
            judge: gives verdicts; None for the rules of `gpuscope.watch.verdict`.
            find_owners: says whose processes are; None asks this host where the source is this
                host's, and nobody where samples come from elsewhere.
            package: sensor of the host's processor packages; not closed here.
            read_health: says how a device of this host is; None for not read.
            on_samples: called in the thread with each answer of the source.
            protection: TLS and a login; None for neither.

        Raises:
            MissingPackageError: `prometheus_client` is not installed.
            InvalidValueError: not an address.
        """
        require_package("prometheus_client", Text("The exporter"), "exporter")
        self._wanted = parse_address(address) if isinstance(address, str) else address
        self._source = source
        self._judge = judge or Judgement()
        if find_owners is None and isinstance(source, Sampler):
            find_owners = Owners().of
        stale_s = max(STALE_S, 3 * source.interval_s) if source is not None else STALE_S
        self.collector = Collector(stale_s, find_owners, package, read_health)
        self._on_samples = on_samples
        self.protection = protection or Protection()
        self._server: WebServer | None = None
        self._threads: list[threading.Thread] = []
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._address: Address | None = None

    @property
    def address(self) -> Address:
        """Where it listens; with the port that the system chose, once started."""
        return self._address or self._wanted

    def start(self) -> Exporter:
        """Listen, and begin to ask the source.

        Raises:
            InvalidValueError: the address is taken, or not this machine's.
            InputFileError: the certificate, its key or the login cannot be used.
        """
        self._server, thread = _listen(self._wanted, self.collector, self.protection)
        self._threads = [thread]
        tls = self.protection.certificate is not None
        self._address = Address(self._wanted.host, self._server.server_port, tls)
        if self._source is not None:
            self._threads.append(
                threading.Thread(target=self._ask, name="gpuscope-exporter", daemon=True)
            )
            self._threads[-1].start()
        return self

    def update(self, samples: Sequence[Sample]) -> None:
        """Give these samples from now on; each replaces its host's."""
        for sample in samples:
            self.collector.update(sample, self._judge(sample))

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the source's end.

        Returns:
            Whether it ended, rather than the time.

        Raises:
            Exception: what the source raised.
        """
        until = math.inf if timeout_s is None else time.monotonic() + timeout_s
        # In short steps: an interrupt must be heard on every system.
        while not self._stop.wait(max(min(0.5, until - time.monotonic()), 0.0)):
            if time.monotonic() >= until:
                return False
        if self._failure is not None:
            raise self._failure
        return True

    def close(self) -> None:
        """Stop listening and asking; the source stays open."""
        self._stop.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        for thread in self._threads:
            thread.join(timeout=5)
        self._threads = []

    def __enter__(self) -> Exporter:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _ask(self) -> None:
        assert self._source is not None
        due = time.monotonic()
        try:
            while not self._stop.is_set():
                samples = self._source.read()
                self.update(samples)
                if self._on_samples is not None:
                    self._on_samples(samples)
                due = max(due + self._source.interval_s, time.monotonic())
                self._stop.wait(due - time.monotonic())
        except EndOfSamples:
            pass
        except BaseException as error:  # told by `wait`, in the thread that can answer
            self._failure = error
        self._stop.set()


class Judgement:
    """The verdicts of `gpuscope.watch.verdict`, with the last seconds of each host remembered."""

    def __init__(self) -> None:
        self._history = History(WINDOW_S)

    def __call__(self, sample: Sample) -> tuple[Verdict, ...]:
        """Return the verdicts on a sample's devices, in their order."""
        self._history.add((sample,))
        return self._history.verdicts(sample.host)


def serve(
    address: str,
    source: Source,
    *,
    ready: Callable[[Exporter], None] | None = None,
    judge: Judge | None = None,
    on_samples: Callable[[tuple[Sample, ...]], None] | None = None,
    protection: Protection | None = None,
) -> None:
    """Give a source's samples to Prometheus until it ends, or the user interrupts.

    Args:
        address: where to listen; without a host, this machine alone.
        source: of samples; not closed.
        ready: called once it listens: say where, and `warning_of` its address.
        judge, on_samples, protection: as `Exporter` takes them.

    Raises:
        MissingPackageError: `prometheus_client` is not installed.
        InvalidValueError: not an address, taken, or not this machine's.
        InputFileError: the certificate, its key or the login cannot be used.
        KeyboardInterrupt: the user has had enough.
    """
    with ExitStack() as opened:
        package, read_health = None, None
        if isinstance(source, Sampler):  # of other hosts, and of the past, nothing more is known
            package = open_sensor(0, "cpu_package")
            if package is not None:
                opened.callback(package.close)
            readers = HealthReaders()
            opened.callback(readers.close)
            read_health = readers.read
        exporter = opened.enter_context(
            Exporter(
                address,
                source,
                judge=judge,
                package=package,
                read_health=read_health,
                on_samples=on_samples,
                protection=protection,
            )
        )
        if ready is not None:
            ready(exporter)
        exporter.wait()


def _listen(
    address: Address, collector: Collector, protection: Protection
) -> tuple[WebServer, threading.Thread]:
    from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app

    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    ProcessCollector(registry=registry)  # what the exporter itself costs
    try:
        server = WebServer(address.host, address.port, make_wsgi_app(registry), protection)
    except (OSError, OverflowError) as error:
        raise InvalidValueError(
            Text("Cannot listen on {host}:{port}.", host=address.host, port=address.port),
            str(getattr(error, "strerror", None) or error) + ".",
            Text("Choose another port: --serve :9401"),
        ) from error
    thread = threading.Thread(target=server.serve_forever, name="gpuscope-http", daemon=True)
    thread.start()
    return server, thread
