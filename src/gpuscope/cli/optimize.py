"""`gpuscope optimize`: real trials, led by prediction; the ladder, its evidence, and a patch."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuscope.cli import workload_arguments as given
from gpuscope.cli.explanations import WhereWithoutFigures
from gpuscope.cli.groups import grouped
from gpuscope.document.text import Text, render

if TYPE_CHECKING:
    from gpuscope.advice.results import Ladder, Trial
    from gpuscope.cli.explanations import Shown

INTERRUPTED = 130
"""Exit code where the user stopped it; what was found is written and shown."""

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}


def register(app: typer.Typer) -> None:
    """Add the `optimize` command to the application."""
    app.command(
        "optimize", short_help=Text("Try what would help, for real; keep what wins, as a patch.")
    )(grouped(optimize_command))


def optimize_command(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET", help=Text("file.py:build, a built-in model, or a script.py.")
        ),
    ],
    *,
    on: Annotated[
        str | None,
        typer.Option("--on", help=Text("Predict for this device; this machine's by default.")),
    ] = None,
    objective: Annotated[str, typer.Option(help=Text("time, memory, energy or cost."))] = "time",
    budget: Annotated[str, typer.Option(help=Text("For all of it: 90s, 10m, 2h."))] = "10m",
    allow: Annotated[
        str, typer.Option(help=Text("Also try what changes the computation: fp8,int8,int4,recipe."))
    ] = "",
    only: Annotated[str, typer.Option(help=Text("Try these changes alone: tf32,compile."))] = "",
    without: Annotated[str, typer.Option(help=Text("Leave these changes out."))] = "",
    alone: Annotated[
        bool, typer.Option("--alone", help=Text("Also try each change by itself (longer)."))
    ] = False,
    device: Annotated[
        str | None, typer.Option(help=Text("cuda, cuda:1, cpu; this machine's GPU by default."))
    ] = None,
    advice: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help=Text("Forecasts of gpuscope advise --save: none are made.")
        ),
    ] = None,
    no_bench: Annotated[
        bool,
        typer.Option(
            "--no-bench", help=Text("Predict for the catalogue's host; else it is measured.")
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help=Text("Ladder, patch and report; else gpuscope-optimize/…")
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help=Text("Go on where it stopped."))] = False,
    own_changes: Annotated[
        list[Path] | None,
        typer.Option("--changes", metavar="FILE", help=Text("Python file that registers changes.")),
    ] = None,
    share: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=Text(
                "Runs that name one file go on at once; while one is timed, the others' GPU work"
                " waits."
            ),
        ),
    ] = None,
    gpus: Annotated[
        int, typer.Option(min=1, help=Text("Processes of a distributed workload, one a GPU."))
    ] = 1,
    options: given.OptionsOrScript,
    shown: WhereWithoutFigures,
) -> None:
    """Find by real trials what makes a workload better, and write it as a patch."""
    from gpuscope.cli.prediction import check_options

    check_options(options)
    asked = {
        "on": on,
        "objective": _objective(objective),
        "budget_s": seconds_of(budget),
        "options": options,
        "device": device,
        "allow": given.names_in(allow),
        "only": given.names_in(only),
        "without": given.names_in(without),
        "alone": alone,
        "out": out,
        "resume": resume,
        "own_changes": tuple(str(p) for p in own_changes or ()),
        "share": share,
        "processes": gpus,
        "advice": advice,
        "bench": not no_bench,
    }
    ladder, folder = _optimized(target, asked, shown)
    _tell(ladder, folder, shown)
    if ladder.interrupted:
        raise typer.Exit(INTERRUPTED)


def seconds_of(text: str) -> float:
    """Seconds of "90", "90s", "10m" or "1.5h".

    Raises:
        InvalidValueError: it is no duration.
    """
    from gpuscope.errors import InvalidValueError

    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smh]?)\s*", text)
    if found is None:
        raise InvalidValueError(
            Text("'{text}' is no duration.", text=text), "", Text("Type for example: --budget 10m")
        )
    return float(found.group(1)) * _UNITS[found.group(2)]


def _objective(text: str) -> str:
    from gpuscope.errors import UnknownNameError

    known = ("time", "memory", "energy", "cost")
    if text not in known:
        raise UnknownNameError(Text("objective"), text, known)
    return text


def _optimized(target: str, asked: dict[str, Any], shown: Shown) -> tuple[Ladder, Path]:
    """Run it, with a line for every trial."""
    from gpuscope.advice.source.locating import locate
    from gpuscope.advice.trial.optimize import FOLDER, optimize
    from gpuscope.cli.progress import note, progress
    from gpuscope.views.i18n import choose_language

    lang = choose_language(shown.lang)
    for path in (shown.output, shown.report):
        if path is not None:
            from gpuscope.atomic import check_writable

            check_writable(path)
    located = locate(target, asked["options"])
    folder = asked["out"] or FOLDER / located.short_name
    with progress(shown.quiet, lines=True) as say:
        ladder = optimize(
            target,
            on_progress=lambda text: say(render(text, lang)),
            on_trial=lambda trial: note(_line(trial, lang), shown.quiet),
            **asked,
        )
    return ladder, folder


def _line(trial: Trial, lang: str) -> str:
    """One trial in one line: "✓ tf32 + sdpa: 1.83×"."""
    from gpuscope.advice.trial.ladder_figures import OUTCOMES
    from gpuscope.views.i18n import tr

    sign = "✓" if trial.outcome == "kept" else "·" if trial.outcome == "even" else "✗"
    start = f"({' + '.join(trial.against)}) + " if trial.against and trial.added else ""
    names = start + " + ".join(trial.added or trial.names)
    gain = f" {trial.speedup:.3g}×" if trial.speedup is not None else ""
    if trial.purpose == "patch":
        names = tr("the patched source", lang)
    return f"{sign} {names}:{gain} {render(OUTCOMES[trial.outcome], lang)}"


def _tell(ladder: Ladder, folder: Path, shown: Shown) -> None:
    """The report beside the ladder; the explanation on the terminal, or the ladder as JSON."""
    from gpuscope.advice.trial.ladder_explanation import explain_ladder
    from gpuscope.advice.trial.ladder_store import LADDER_FILE
    from gpuscope.atomic import write_atomically
    from gpuscope.cli.explanations import Shown, show
    from gpuscope.cli.progress import note
    from gpuscope.views.html import write_explanation
    from gpuscope.views.i18n import choose_language, tr

    lang = choose_language(shown.lang)
    story = explain_ladder(ladder, str(folder / "patch.diff"))
    document = (folder / LADDER_FILE).read_text(encoding="utf-8")
    report = folder / "report.html"
    files = [folder / LADDER_FILE, report, *([folder / "patch.diff"] if ladder.patch else [])]
    for page in filter(None, (report, shown.report)):
        write_explanation(story, page, lang)
    if shown.output is not None:
        write_atomically(shown.output, document)
    files += [path for path in (shown.report, shown.output) if path is not None]
    if not shown.as_json:
        show(lambda: story, Shown(lang=shown.lang, quiet=shown.quiet))
    elif shown.output is None:
        typer.echo(document)
    for path in files:
        note(tr("Wrote {path}", lang, path=path), shown.quiet)
