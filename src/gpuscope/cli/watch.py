"""`gpuscope watch`: what do the devices do now?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.watch.web_server import Protection

# What does the work is imported when the command runs, so that --help stays fast.


def register(app: typer.Typer) -> None:
    """Add the `watch` command to the application."""
    app.command(
        "watch",
        short_help=Text("What the devices do now: live, logged, replayed, exported."),
        # What follows the options is the command that --energy runs, whatever it looks like.
        context_settings={"allow_interspersed_args": False},
    )(watch_command)


def watch_command(
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help=Text("With --energy: what to run.")),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help=Text("Look once, print, and end."))] = False,
    json_lines: Annotated[
        bool, typer.Option("--json-lines", help=Text("Print a line of JSON a sample, for logs."))
    ] = False,
    record: Annotated[
        Path | None, typer.Option(metavar="FILE", help=Text("Save the samples, to be replayed."))
    ] = None,
    replay: Annotated[
        Path | None, typer.Option(metavar="FILE", help=Text("Play recorded samples."))
    ] = None,
    speed: Annotated[float, typer.Option(help=Text("With --replay: 2 is twice as fast."))] = 1.0,
    interval: Annotated[
        float | None, typer.Option(metavar="SECONDS", help=Text("From sample to sample [1]."))
    ] = None,
    seconds: Annotated[float | None, typer.Option(min=0, help=Text("End after so long."))] = None,
    gpus: Annotated[
        str | None, typer.Option(metavar="LIST", help=Text("Only these devices: 0,2 or 0-3."))
    ] = None,
    hosts: Annotated[
        str | None,
        typer.Option(metavar="LIST", help=Text("Read other hosts' exporters: a:9400,b:9400.")),
    ] = None,
    serve: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help=Text("Give the samples to Prometheus: :9400.")),
    ] = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=Text("With --serve: https, by this certificate (PEM).")),
    ] = None,
    tls_key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=Text("Its private key, where that is another file.")),
    ] = None,
    login: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help=Text("With --serve: ask for the name:password of this file.")
        ),
    ] = None,
    energy: Annotated[
        bool, typer.Option("--energy", help=Text("Run COMMAND; tell its energy, cost and carbon."))
    ] = False,
    grid: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE", help=Text("With --energy: fr, us, cn, ... or grams CO2 per kWh.")
        ),
    ] = None,
    price: Annotated[
        float | None, typer.Option(metavar="USD", help=Text("With --energy: of a kilowatt-hour."))
    ] = None,
    dashboard: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=Text("Write a Grafana dashboard for --serve.")),
    ] = None,
    alerts: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=Text("Write Prometheus alert rules for --serve.")),
    ] = None,
    attach: Annotated[
        int | None,
        typer.Option(metavar="PID", help=Text("Record a running PyTorch process, shortly.")),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=Text("With --attach: the trace; with --energy: JSON.")),
    ] = None,
    lang: Annotated[str | None, typer.Option(help=Text("Language: en or zh."))] = None,
) -> None:
    """Watch the devices: what their units do, and what that means."""
    from gpuscope.views.i18n import choose_language

    language = choose_language(lang)
    _check(command, energy, attach, once or json_lines, serve, replay, hosts)
    _check_energy(energy, grid or price, record or replay or hosts or seconds)
    _check_files(record, replay)
    protection = _protection(serve, tls_cert, tls_key, login)
    if energy:
        from gpuscope.cli.watch_energy import run_and_tell
        from gpuscope.cli.watch_show import device_indices

        code = run_and_tell(
            command or [],
            grid=grid,
            price=price,
            output=output,
            interval_s=interval,
            gpus=device_indices(gpus),
            lang=language,
        )
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
    from gpuscope.cli.watch_show import Wanted, watch

    watch(
        Wanted(
            once,
            json_lines,
            replay,
            speed,
            interval,
            gpus,
            hosts,
            seconds,
            record,
            serve,
            language,
            protection,
        )
    )


def _check(
    command: list[str] | None,
    energy: bool,
    attach: int | None,
    printed: bool,
    serve: str | None,
    replay: Path | None,
    hosts: str | None,
) -> None:
    from gpuscope.errors import InvalidValueError

    if command and not energy:
        raise InvalidValueError(
            Text("'{command}' is not an option of watch.", command=command[0]),
            Text("A command belongs to --energy."),
            Text("Type: {command}", command="gpuscope watch --energy -- " + " ".join(command)),
        )
    if energy and not command:
        raise InvalidValueError(
            Text("--energy needs a command to run."),
            "",
            Text("Type: gpuscope watch --energy -- python x.py"),
        )
    if sum((energy, attach is not None, printed, serve is not None)) > 1:
        raise InvalidValueError(
            Text("One of --once or --json-lines, --serve, --energy and --attach at a time."),
            "",
            Text("Leave the others out."),
        )
    if replay is not None and hosts is not None:
        raise InvalidValueError(Text("Either --replay or --hosts."), "", Text("Leave one out."))


def _check_energy(energy: bool, its_own: object, others: object) -> None:
    """Refuse options that would be passed over in silence."""
    from gpuscope.errors import InvalidValueError

    if its_own is not None and not energy:
        raise InvalidValueError(
            Text("--grid and --price belong to --energy."),
            "",
            Text("Type: gpuscope watch --energy --grid fr -- python x.py"),
        )
    if energy and others is not None:
        raise InvalidValueError(
            Text("--record, --replay, --hosts and --seconds do not go with --energy."),
            Text("It measures a command on this machine, from its start to its end."),
            Text("Leave them out."),
        )


def _protection(
    serve: str | None, certificate: Path | None, key: Path | None, login: Path | None
) -> Protection | None:
    """What protects the figures that are served; None for nothing."""
    if certificate is key is login is None:
        return None
    from gpuscope.errors import InvalidValueError
    from gpuscope.watch.web_server import Protection

    if serve is None:
        raise InvalidValueError(
            Text("--tls-cert, --tls-key and --login belong to --serve."),
            "",
            Text("Leave them out."),
        )
    return Protection(certificate, key, login)


def _check_files(record: Path | None, replay: Path | None) -> None:
    """Refuse to write over what is being read."""
    from gpuscope.errors import InvalidValueError

    if record is not None and replay is not None and record.resolve() == replay.resolve():
        raise InvalidValueError(
            Text("{record} cannot be played and written at once.", record=record),
            "",
            Text("Choose another --record FILE."),
        )
