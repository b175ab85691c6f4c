"""`gpuscope doctor`: is this machine all right?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuscope.atomic import check_writable, write_atomically
from gpuscope.cli.progress import note, progress
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.cli.progress import Say
    from gpuscope.doctor.machine import LiveMachine, Machine
    from gpuscope.doctor.types import Diagnosis

# Checks and tables are imported when the command runs, so that --help stays fast.

FOUND = 3
"""Exit code where something is wrong with the machine: errors, with --strict warnings too."""


@dataclass(frozen=True, slots=True)
class _Shown:
    """Where a diagnosis goes."""

    text: bool
    as_json: bool
    output: Path | None
    report: Path | None
    quiet: bool
    lang: str

    @property
    def silent(self) -> bool:
        return self.quiet or self.as_json or self.text


def register(app: typer.Typer) -> None:
    """Add the `doctor` command to the application."""
    app.command("doctor")(doctor_command)


def doctor_command(
    deep: Annotated[
        bool,
        typer.Option("--deep", help=Text("Also work on the devices: right results, full speed?")),
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help=Text("Only this check or group; may be repeated.")),
    ] = None,
    list_checks: Annotated[bool, typer.Option("--list", help=Text("List the checks."))] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help=Text("Exit with 3 for warnings too, not only errors."))
    ] = False,
    text: Annotated[
        bool, typer.Option("--text", help=Text("Print plain text, to paste into a bug report."))
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help=Text("Print the JSON document."))] = False,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help=Text("Save the JSON document."))
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=Text("Write a page: one self-contained HTML file.")),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=Text("Save what the machine answered, to be replayed.")),
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=Text("Examine a recorded machine, not this one.")),
    ] = None,
    compare: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help=Text("What differs from another machine: its recording or JSON.")
        ),
    ] = None,
    lang: Annotated[str | None, typer.Option(help=Text("Language: en or zh."))] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help=Text("Only the summary and what is wrong."))
    ] = False,
) -> None:
    """Is this machine all right? Driver, libraries, links, health."""
    from gpuscope.errors import InvalidValueError
    from gpuscope.views.i18n import choose_language

    language = choose_language(lang)
    if list_checks:
        _list(as_json, language)
        return
    if text and as_json:
        raise InvalidValueError(Text("Either --text or --json."), "", Text("Leave one out."))
    for path in (output, report, record):
        if path is not None:
            check_writable(path)
    shown = _Shown(text, as_json, output, report, quiet, language)
    other = _load(compare, only or []) if compare is not None else None
    machine, diagnosis = _examine(replay, record, deep, only or [], shown)
    if other is not None:
        _show_comparison(diagnosis, other, shown)
        return
    _show(machine, diagnosis, shown)
    if diagnosis.worst == "error" or (strict and diagnosis.worst == "warning"):
        raise typer.Exit(FOUND)


def _list(as_json: bool, lang: str) -> None:
    from gpuscope.doctor.registry import checks

    if as_json:
        from gpuscope.document.plain import dumps

        rows = [{"name": c.name, "group": c.group, "about": c.about} for c in checks()]
        typer.echo(dumps({"schema": "gpuscope.checks", "version": 1, "checks": rows}))
        return
    from gpuscope.views.doctor import render_checks
    from gpuscope.views.terminal import make_console

    make_console().print(render_checks(checks(), lang))


def _examine(
    replay: Path | None, record: Path | None, deep: bool, only: list[str], shown: _Shown
) -> tuple[Machine, Diagnosis]:
    """Ask the machine, or its recording; save what it answered where that is wanted."""
    from gpuscope.doctor.diagnose import diagnose
    from gpuscope.doctor.machine import LiveMachine, Recording
    from gpuscope.views.i18n import tr

    if replay is not None:
        recording = Recording.load(replay)
        diagnosis = diagnose(recording, deep=deep, only=only)
        machine: Machine = recording
    else:
        with progress(shown.silent) as say:
            live = LiveMachine(tell=say)
            try:
                diagnosis = _ask(live, say, deep, only, record is not None, shown.lang)
            finally:
                live.stop()
        recording, machine = live.recording, live
    if record is not None:
        from gpuscope.doctor.record import scrubbed

        write_atomically(record, scrubbed(recording).to_json() + "\n")
        note(tr("Wrote {path}", shown.lang, path=record), shown.quiet)
    return machine, diagnosis


def _ask(
    live: LiveMachine, say: Say, deep: bool, only: list[str], more: bool, lang: str
) -> Diagnosis:
    """Examine this machine and say what is being done; ask more where it is recorded."""
    from gpuscope.doctor.diagnose import diagnose
    from gpuscope.views.i18n import tr

    say(tr("Examining this machine …", lang))
    if not only:
        from gpuscope.doctor.probes import AHEAD

        live.ask_ahead(*AHEAD)

    def tell(name: str) -> None:
        if name.startswith("deep_"):  # the others answer at once, or wait for the same libraries
            say(tr("Checking {name} …", lang, name=name))

    diagnosis = diagnose(live, deep=deep, only=only, say=tell)
    if more:
        from gpuscope.doctor.record import ask_more

        say(tr("Recording this machine …", lang))
        ask_more(live)
    return diagnosis


def _load(path: Path, only: list[str]) -> Diagnosis:
    """The other machine: its diagnosis as saved, or its recording, examined now."""
    from gpuscope.views.doctor_document import is_recording, load_diagnosis

    if not is_recording(path):
        return load_diagnosis(path)
    from gpuscope.doctor.diagnose import diagnose
    from gpuscope.doctor.machine import Recording

    return diagnose(Recording.load(path), only=only)


def _show(machine: Machine, diagnosis: Diagnosis, shown: _Shown) -> None:
    from gpuscope.views.doctor_document import diagnosis_document

    _save(diagnosis_document(diagnosis), shown)
    if shown.report is not None:
        from gpuscope.doctor.explanation import explain_diagnosis
        from gpuscope.views.html import write_explanation
        from gpuscope.views.i18n import tr

        write_explanation(explain_diagnosis(diagnosis, machine), shown.report, shown.lang)
        note(tr("Wrote {path}", shown.lang, path=shown.report), shown.quiet)
    if shown.as_json:
        if shown.output is None:
            from gpuscope.document.plain import dumps

            typer.echo(dumps(diagnosis_document(diagnosis)))
    elif shown.text:
        from gpuscope.views.doctor_text import diagnosis_text

        typer.echo(diagnosis_text(diagnosis, shown.lang))
    else:
        from gpuscope.views.doctor import render_diagnosis
        from gpuscope.views.terminal import make_console

        console = make_console()
        console.print(render_diagnosis(diagnosis, shown.lang, brief=shown.quiet))
        if not shown.quiet and "nvlink" in diagnosis.checks:
            _show_wiring(machine, shown.lang)


def _show_wiring(machine: Machine, lang: str) -> None:
    """The tree of devices, where the checks of the topology ran."""
    from gpuscope.doctor.topology import topology
    from gpuscope.views.doctor_topology import render_topology
    from gpuscope.views.terminal import make_console

    tree = render_topology(topology(machine), lang)
    if tree is not None:
        make_console().print(tree)


def _show_comparison(diagnosis: Diagnosis, other: Diagnosis, shown: _Shown) -> None:
    from gpuscope.doctor.compare import differences
    from gpuscope.views.doctor_document import differences_document

    found = differences(diagnosis, other)
    _save(differences_document(found), shown)
    if shown.as_json:
        if shown.output is None:
            from gpuscope.document.plain import dumps

            typer.echo(dumps(differences_document(found)))
        return
    from gpuscope.views.doctor_compare import render_differences
    from gpuscope.views.terminal import make_console

    make_console().print(render_differences(found, shown.lang))


def _save(document: dict[str, Any], shown: _Shown) -> None:
    if shown.output is not None:
        from gpuscope.atomic import write_document
        from gpuscope.views.i18n import tr

        write_document(document, shown.output)
        note(tr("Wrote {path}", shown.lang, path=shown.output), shown.quiet)
