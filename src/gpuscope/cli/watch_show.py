"""How `gpuscope watch` runs: what is watched, and where the samples go."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpuscope.cli.progress import note
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.watch.history import History
    from gpuscope.watch.recording import SampleWriter
    from gpuscope.watch.source import Source
    from gpuscope.watch.types import Sample
    from gpuscope.watch.web_server import Protection

    OnSamples = Callable[[tuple[Sample, ...], History], None]

# Sensors, views and servers are imported when the command runs, so that --help stays fast.

LOOKS = 4
"""Samples of a single look: a verdict rests on three at least, and rates need one before."""

LOOK_S = 0.4
"""Seconds between them."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked of the command; names as its options.

    Attributes:
        lang: "en" or "zh".
        protection: of what is served: TLS and a login.
    """

    once: bool
    json_lines: bool
    replay: Path | None
    speed: float
    interval: float | None
    gpus: str | None
    hosts: str | None
    seconds: float | None
    record: Path | None
    serve: str | None
    lang: str
    protection: Protection | None = None


def watch(wanted: Wanted) -> None:
    """Watch as asked, until the end.

    Raises:
        GpuscopeError: the source, the recording or the view cannot be opened.
    """
    # This runs for hours: what it leaves must be collected, unlike in a command of seconds
    # (`gpuscope.garbage`). These are Python's own figures.
    gc.set_threshold(700, 10, 10)
    source = _source(wanted)
    try:
        with _recorder(wanted.record) as on_samples:
            _run(wanted, source, on_samples)
    finally:
        source.close()
        if wanted.record is not None and wanted.record.exists():
            _tell_recorded(wanted.record, wanted.lang)


def _source(wanted: Wanted) -> Source:
    """What is watched: a recording, other hosts, or this one."""
    if wanted.gpus is not None and (wanted.replay is not None or wanted.hosts is not None):
        from gpuscope.errors import InvalidValueError

        raise InvalidValueError(
            Text("--gpus chooses among this host's devices."), "", Text("Leave it out.")
        )
    if wanted.replay is not None:
        from gpuscope.watch.recording import Replay

        # A single look at a recording shows its end.
        return Replay.load(wanted.replay, speed=float("inf") if wanted.once else wanted.speed)
    if wanted.hosts is not None:
        from gpuscope.watch.hosts import Hosts

        addresses = [each.strip() for each in wanted.hosts.split(",") if each.strip()]
        return Hosts(addresses, interval_s=2.0 if wanted.interval is None else wanted.interval)
    from gpuscope.watch.sampler import Sampler, open_devices

    interval_s = 1.0 if wanted.interval is None else wanted.interval
    return Sampler(open_devices(device_indices(wanted.gpus)), interval_s=interval_s)


def device_indices(text: str | None) -> list[int] | None:
    """Return the devices that "0,2" or "0-3" names; None for all.

    Raises:
        InvalidValueError: it is not such a list.
    """
    from gpuscope.errors import InvalidValueError

    if text is None:
        return None
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise InvalidValueError(
                Text("'{text}' is not a list of devices.", text=text),
                "",
                Text("Type: --gpus 0,2 or --gpus 0-3"),
            )
        found += range(int(first), int(last if dash else first) + 1)
    return found


@contextmanager
def _recorder(path: Path | None) -> Iterator[OnSamples]:
    """Yield what writes samples, with their verdicts, to a file, if one is wanted."""
    if path is None:
        yield lambda samples, history: None
        return
    from gpuscope.watch.recording import SampleWriter

    with SampleWriter(path) as writer:
        yield lambda samples, history: _write(writer, samples, history)


def _write(writer: SampleWriter, samples: tuple[Sample, ...], history: History) -> None:
    for sample in samples:
        writer.write(sample, history.verdicts(sample.host))


def _run(wanted: Wanted, source: Source, on_samples: OnSamples) -> None:
    if wanted.serve is not None:
        _serve(wanted.serve, source, on_samples, wanted)
    elif wanted.json_lines:
        _print_lines(wanted, source, on_samples)
    elif wanted.once or not sys.stdout.isatty():
        _look(wanted, source, on_samples)
    else:
        _live(wanted, source, on_samples)


def _look(wanted: Wanted, source: Source, on_samples: OnSamples) -> None:
    from gpuscope.views.terminal import make_console
    from gpuscope.views.watch import render_watch
    from gpuscope.views.watch_device import Look

    history = _collect(wanted, source, on_samples)
    console = make_console()
    look = Look(wanted.lang, console.width)
    console.print(render_watch(history, look, source.notes))


def _collect(wanted: Wanted, source: Source, on_samples: OnSamples) -> History:
    """Enough samples for a verdict; all of a recording."""
    from gpuscope.watch.history import History
    from gpuscope.watch.source import EndOfSamples

    history = History()
    looks = 0
    while wanted.replay is not None or looks < LOOKS:
        if looks and wanted.replay is None:
            time.sleep(LOOK_S)
        try:
            samples = source.read()
        except EndOfSamples:
            break
        looks += 1
        history.add(samples)
        on_samples(samples, history)
    return history


def _print_lines(wanted: Wanted, source: Source, on_samples: OnSamples) -> None:
    """A line a sample; ends quietly when interrupted, or when nobody reads any more."""
    from gpuscope.watch.recording import sample_line

    def line(samples: tuple[Sample, ...], history: History) -> None:
        on_samples(samples, history)
        for sample in samples:
            print(sample_line(sample, history.verdicts(sample.host)), flush=True)

    try:
        if wanted.once:
            history = _collect(wanted, source, on_samples)
            line(tuple(history.latest(host) for host in history.hosts), history)
        else:
            _follow(wanted, source, line)
    except KeyboardInterrupt:
        return
    except BrokenPipeError:
        # Python flushes its standard output once more at its end: let that go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _follow(wanted: Wanted, source: Source, on_samples: OnSamples) -> None:
    from gpuscope.watch.history import History
    from gpuscope.watch.source import EndOfSamples

    history = History()
    begin = due = time.monotonic()
    while wanted.seconds is None or time.monotonic() - begin < wanted.seconds:
        try:
            samples = source.read()
        except EndOfSamples:
            return
        history.add(samples)
        on_samples(samples, history)
        if wanted.replay is None:  # a recording keeps its own time
            due = max(due + source.interval_s, time.monotonic())
            time.sleep(due - time.monotonic())


def _live(wanted: Wanted, source: Source, on_samples: OnSamples) -> None:
    from gpuscope.errors import require_package

    require_package("textual", Text("The live view"), "watch")
    from gpuscope.views.watch_app import WatchApp

    gc.freeze()  # what was imported stays: not looked through again and again
    app = WatchApp(source, wanted.lang, on_samples=on_samples, seconds=wanted.seconds)
    app.run()
    if app.failure is not None:
        raise app.failure


def _serve(address: str, source: Source, on_samples: OnSamples, wanted: Wanted) -> None:
    from gpuscope.document.text import render
    from gpuscope.views.i18n import tr
    from gpuscope.watch.exporter import Exporter, serve, warning_of
    from gpuscope.watch.history import History

    lang, protection = wanted.lang, wanted.protection

    def ready(exporter: Exporter) -> None:
        note(tr("Serving {url}", lang, url=exporter.address.url), quiet=False)
        warning = warning_of(exporter.address, exporter.protection.login is not None)
        if warning is not None:
            note(render(warning, lang), quiet=False)

    history = History()

    def keep(samples: tuple[Sample, ...]) -> None:
        history.add(samples)
        on_samples(samples, history)

    try:
        serve(address, source, ready=ready, on_samples=keep, protection=protection)
    except KeyboardInterrupt:
        return


def _tell_recorded(path: Path, lang: str) -> None:
    from gpuscope.views.i18n import tr

    note(tr("Wrote {path}", lang, path=path), quiet=False)
