"""`gpuscope watch`: what do the devices do now?"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuscope.cli.progress import note

if TYPE_CHECKING:
    from gpuscope.watch.history import History
    from gpuscope.watch.recording import SampleWriter
    from gpuscope.watch.source import Source
    from gpuscope.watch.types import Sample

    OnSamples = Callable[[tuple[Sample, ...], History], None]

# Sensors, views and servers are imported when the command runs, so that --help stays fast.

LOOKS = 4
"""Samples of a single look: a verdict rests on three at least, and rates need one before."""

LOOK_S = 0.4
"""Seconds between them."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What was asked of the command."""

    once: bool
    json_lines: bool
    replay: Path | None
    speed: float
    interval: float | None
    gpus: str | None
    hosts: str | None
    seconds: float | None
    lang: str


def register(app: typer.Typer) -> None:
    """Add the `watch` command to the application."""
    app.command(
        "watch",
        short_help="What the devices do now: live, logged, replayed, exported.",
        # What follows the options is the command that --energy runs, whatever it looks like.
        context_settings={"allow_interspersed_args": False},
    )(watch_command)


def watch_command(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND", help="With --energy: what to run.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Look once, print, and end.")] = False,
    json_lines: Annotated[
        bool, typer.Option("--json-lines", help="Print a line of JSON a sample, for logs.")
    ] = False,
    record: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save the samples, to be replayed.")
    ] = None,
    replay: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Play recorded samples.")
    ] = None,
    speed: Annotated[float, typer.Option(help="With --replay: 2 is twice as fast.")] = 1.0,
    interval: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="From sample to sample [1].")
    ] = None,
    seconds: Annotated[float | None, typer.Option(min=0, help="End after so long.")] = None,
    gpus: Annotated[
        str | None, typer.Option(metavar="LIST", help="Only these devices: 0,2 or 0-3.")
    ] = None,
    hosts: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Read other hosts' exporters: a:9400,b:9400."),
    ] = None,
    serve: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Give the samples to Prometheus: :9400.")
    ] = None,
    energy: Annotated[
        bool, typer.Option("--energy", help="Run COMMAND; tell its energy, cost and carbon.")
    ] = False,
    grid: Annotated[
        str | None,
        typer.Option(metavar="PLACE", help="With --energy: fr, us, cn, ... or grams CO2 per kWh."),
    ] = None,
    price: Annotated[
        float | None, typer.Option(metavar="USD", help="With --energy: of a kilowatt-hour.")
    ] = None,
    dashboard: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a Grafana dashboard for --serve.")
    ] = None,
    alerts: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write Prometheus alert rules for --serve.")
    ] = None,
    attach: Annotated[
        int | None, typer.Option(metavar="PID", help="Record a running PyTorch process, shortly.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --attach: the trace; with --energy: JSON."),
    ] = None,
    lang: Annotated[str | None, typer.Option(help="Language: en or zh.")] = None,
) -> None:
    """Watch the devices: what their units do, and what that means."""
    from gpuscope.views.i18n import choose_language

    language = choose_language(lang)
    _check(command, energy, attach, once or json_lines, serve, replay, hosts)
    if energy:
        from gpuscope.cli.watch_energy import run_and_tell

        code = run_and_tell(
            command or [], grid=grid, price=price, output=output, interval_s=interval,
            lang=language,
        )  # fmt: skip
        raise typer.Exit(code)
    if dashboard is not None or alerts is not None:
        from gpuscope.cli.watch_energy import write_files

        write_files(dashboard, alerts, language)
        if serve is None:
            return
    if attach is not None:
        from gpuscope.cli.watch_attach import attach_and_tell

        attach_and_tell(attach, output, seconds, language)
        return
    wanted = _Wanted(once, json_lines, replay, speed, interval, gpus, hosts, seconds, language)
    source = _source(wanted)
    try:
        with _recorder(record) as on_samples:
            _run(wanted, source, serve, on_samples)
    finally:
        source.close()
        if record is not None:
            _tell_recorded(record, language)


def _check(
    command: list[str] | None, energy: bool, attach: int | None, printed: bool, serve: str | None,
    replay: Path | None, hosts: str | None,
) -> None:  # fmt: skip
    from gpuscope.errors import InvalidValueError

    if command and not energy:
        raise InvalidValueError(
            f"'{command[0]}' is not an option of watch.", "A command belongs to --energy.",
            "Type: gpuscope watch --energy -- " + " ".join(command),
        )  # fmt: skip
    if energy and not command:
        raise InvalidValueError(
            "--energy needs a command to run.", "", "Type: gpuscope watch --energy -- python x.py"
        )
    if sum((energy, attach is not None, printed, serve is not None)) > 1:
        raise InvalidValueError(
            "One of --once or --json-lines, --serve, --energy and --attach at a time.", "",
            "Leave the others out.",
        )  # fmt: skip
    if replay is not None and hosts is not None:
        raise InvalidValueError("Either --replay or --hosts.", "", "Leave one out.")


def _source(wanted: _Wanted) -> Source:
    """What is watched: a recording, other hosts, or this one."""
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
    return Sampler(open_devices(_indices(wanted.gpus)), interval_s=interval_s)


def _indices(text: str | None) -> list[int] | None:
    """The devices of "0,2" or "0-3"; None for all."""
    from gpuscope.errors import InvalidValueError

    if text is None:
        return None
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise InvalidValueError(
                f"'{text}' is not a list of devices.", "", "Type: --gpus 0,2 or --gpus 0-3"
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


def _run(wanted: _Wanted, source: Source, serve: str | None, on_samples: OnSamples) -> None:
    if serve is not None:
        _serve(serve, source, on_samples, wanted.lang)
    elif wanted.json_lines:
        _print_lines(wanted, source, on_samples)
    elif wanted.once or not sys.stdout.isatty():
        _look(wanted, source, on_samples)
    else:
        _live(wanted, source, on_samples)


def _look(wanted: _Wanted, source: Source, on_samples: OnSamples) -> None:
    from gpuscope.views.terminal import make_console
    from gpuscope.views.watch import render_watch
    from gpuscope.views.watch_device import Look

    history = _collect(wanted, source, on_samples)
    console = make_console()
    look = Look(wanted.lang, console.width)
    console.print(render_watch(history, look, source.notes))


def _collect(wanted: _Wanted, source: Source, on_samples: OnSamples) -> History:
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


def _print_lines(wanted: _Wanted, source: Source, on_samples: OnSamples) -> None:
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
        sys.stdout = None  # type: ignore[assignment]  # Python must not flush it at its end


def _follow(wanted: _Wanted, source: Source, on_samples: OnSamples) -> None:
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


def _live(wanted: _Wanted, source: Source, on_samples: OnSamples) -> None:
    from gpuscope.errors import require_package

    require_package("textual", "The live view", "watch")
    from gpuscope.views.watch_app import WatchApp

    app = WatchApp(source, wanted.lang, on_samples=on_samples, seconds=wanted.seconds)
    app.run()
    if app.failure is not None:
        raise app.failure


def _serve(address: str, source: Source, on_samples: OnSamples, lang: str) -> None:
    from gpuscope.views.i18n import tr
    from gpuscope.views.quantities import words
    from gpuscope.watch.exporter import Exporter, serve, warning_of
    from gpuscope.watch.history import History

    def ready(exporter: Exporter) -> None:
        note(tr("Serving {url}", lang, url=exporter.address.url), quiet=False)
        warning = warning_of(exporter.address)
        if warning is not None:
            note(words(warning, lang), quiet=False)

    history = History()

    def keep(samples: tuple[Sample, ...]) -> None:
        history.add(samples)
        on_samples(samples, history)

    try:
        serve(address, source, ready=ready, on_samples=keep)
    except KeyboardInterrupt:
        return


def _tell_recorded(path: Path, lang: str) -> None:
    from gpuscope.views.i18n import tr

    note(tr("Wrote {path}", lang, path=path), quiet=False)
