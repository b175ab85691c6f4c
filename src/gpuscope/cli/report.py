"""`gpuscope report`: the page of what was saved or recorded, opened or played as a film."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpuscope.cli import workload_arguments as given
from gpuscope.document.text import Text


def register(app: typer.Typer) -> None:
    """Add the `report` command to the application."""
    short = Text("Write the page of a saved run or a recording, open it, play it.")
    app.command("report", short_help=short)(report_command)


def report_command(
    files: Annotated[
        list[Path],
        typer.Argument(
            help=Text("Runs saved with --output FILE, traces, or folders of one run's ranks.")
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=Text("Where the page goes; by default RUN.html here.")),
    ] = None,
    show: Annotated[
        bool, typer.Option("--open", help=Text("Open the page in the browser."))
    ] = False,
    video: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=Text("Also play the step as a film, .mp4 or .gif (needs Chromium and ffmpeg)."),
        ),
    ] = None,
    seconds: Annotated[float, typer.Option(help=Text("How long the film lasts."))] = 10.0,
    lang: given.Lang = None,
    quiet: given.Quiet = False,
) -> None:
    """Write the page of a saved run or a recording; of several files one page with all runs."""
    from gpuscope.atomic import check_writable
    from gpuscope.cli.compare import runs_of
    from gpuscope.cli.progress import note, progress
    from gpuscope.views.i18n import choose_language, tr

    language = choose_language(lang)
    page = output or Path(f"{files[0].name.partition('.')[0] or 'report'}.html")
    check_writable(page)
    if video is not None:
        from gpuscope.views.film import check_film

        check_writable(video)
        check_film(video)
    with progress(quiet) as say:
        say(tr("Reading {workload} …", language, workload=files[0]))
        runs = [run for file in files for run in runs_of(file)]
        from gpuscope.views.html import write_report

        write_report(runs, page, language)
        if video is not None:
            from gpuscope.views.film import write_film

            def tell(done: int, total: int) -> None:
                say(tr("Drew {done} of {total} pictures …", language, done=done, total=total))

            write_film(page, video, seconds, tell)
    for path in (page, video):
        if path is not None:
            note(tr("Wrote {path}", language, path=path), quiet=quiet)
    if show:
        import webbrowser

        if not webbrowser.open(page.resolve().as_uri()):
            note(
                tr("No browser was found. Open {path} yourself.", language, path=page), quiet=False
            )
