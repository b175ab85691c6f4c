"""`gpuscope guard`: a project's workloads, predicted and held against its baseline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuscope.cli import workload_arguments as given
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.guarding.judge import Found, Report
    from gpuscope.guarding.settings import GuardSettings

WORSE = 1
"""Exit code where something got worse."""


def register(app: typer.Typer) -> None:
    """Add the `guard` command to the application."""
    short = Text("Hold your workloads against a baseline, without a GPU.")
    app.command("guard", short_help=short)(guard_command)


def guard_command(
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help=Text("gpuscope.toml or pyproject.toml; else the nearest one.")
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help=Text("Only this workload. May be repeated.")),
    ] = None,
    update: Annotated[
        bool, typer.Option("--update", help=Text("Write the baseline anew, of all workloads."))
    ] = False,
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help=Text("Write a comment for a pull request."))
    ] = None,
    annotations: Annotated[
        str | None,
        typer.Option(metavar="github", help=Text("Print an annotation for each line at fault.")),
    ] = None,
    as_json: given.AsJson = False,
    no_cache: given.NoCache = False,
    lang: given.Lang = None,
    quiet: given.Quiet = False,
) -> None:
    """Predict the workloads of gpuscope.toml, and hold them against the baseline: exit code 1 if
    one got worse."""
    from gpuscope.atomic import check_writable
    from gpuscope.capturing import keeping
    from gpuscope.cli.progress import progress
    from gpuscope.errors import InvalidValueError, UnknownNameError
    from gpuscope.guarding import settings as guarded
    from gpuscope.guarding.baseline import Baseline, read_baseline
    from gpuscope.guarding.facts import versions
    from gpuscope.guarding.history import History
    from gpuscope.guarding.judge import judge, predict_all
    from gpuscope.views.i18n import choose_language, tr

    language = choose_language(lang)
    if annotations not in (None, "github"):
        raise UnknownNameError(Text("sort of annotations"), annotations or "", ["github"])
    if update and only:
        raise InvalidValueError(
            Text("--update writes the whole baseline."), "", Text("Leave out --only.")
        )
    settings = guarded.read_settings(config)
    if only:
        settings = guarded.only(settings, tuple(only))
    for path in (markdown, settings.baseline if update else None):
        if path is not None:
            check_writable(path)
    baseline = Baseline() if update else read_baseline(settings.baseline)
    with keeping(not no_cache), progress(quiet) as say:
        found = predict_all(
            settings,
            lambda name, on: say(
                tr("Predicting {workload} on {devices} …", language, workload=name, devices=on)
            ),
        )
    if update:
        _update(settings, found, language, quiet)
        return
    report = judge(settings, found, baseline, versions(), History(settings.baseline))
    if only:
        from dataclasses import replace

        report = replace(report, gone=())
    _show(report, markdown, annotations is not None, as_json, language, quiet)
    if report.failed:
        raise typer.Exit(WORSE)


def _update(settings: GuardSettings, found: Found, language: str, quiet: bool) -> None:
    from gpuscope.cli.progress import note
    from gpuscope.guarding.baseline import Baseline, write_baseline
    from gpuscope.guarding.facts import versions
    from gpuscope.views.i18n import tr

    facts = {key: facts for key, (facts, _) in found.items()}
    write_baseline(Baseline(versions(), facts), settings.baseline)
    note(tr("Wrote {path}", language, path=settings.baseline), quiet)


def _show(
    report: Report,
    markdown: Path | None,
    annotations: bool,
    as_json: bool,
    language: str,
    quiet: bool,
) -> None:
    from gpuscope.atomic import write_atomically
    from gpuscope.views import guard as view

    if markdown is not None:
        write_atomically(markdown, view.guard_markdown(report, language))
    if as_json:
        from gpuscope.document.plain import dumps, plain

        head = {"schema": "gpuscope.guard", "version": 1, "failed": report.failed}
        typer.echo(dumps(head | plain(report)))
        return
    from gpuscope.views.terminal import make_console

    make_console().print(view.guard_terminal(report, language, quiet=quiet))
    if annotations:
        for line in view.guard_annotations(report, language):
            typer.echo(line)
