"""`gpuscope profile`: record a few steps of an unmodified script."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuscope import children
from gpuscope.cli import workload_arguments as given
from gpuscope.document.printable import doors_open
from gpuscope.document.text import Text, render

if TYPE_CHECKING:
    from gpuscope.measurement.script.ranks import Place
    from gpuscope.measurement.script.session import Session
    from gpuscope.run import Run

# What does the work is imported when the command runs, so that --help stays fast.

FOLDER = Path("gpuscope-profile")


def register(app: typer.Typer) -> None:
    """Add the `profile` command to the application."""
    app.command(
        "profile",
        short_help=Text("Run a script as it is, and record a few of its steps."),
        # Everything after the script belongs to it, whatever it looks like.
        context_settings={"allow_interspersed_args": False, "ignore_unknown_options": False},
    )(profile_command)


def profile_command(
    script: Annotated[
        str, typer.Argument(metavar="SCRIPT", help=Text("script.py, or with -m a module."))
    ],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="ARGS", help=Text("The script's own arguments."))
    ] = None,
    module: Annotated[
        bool, typer.Option("-m", "--module", help=Text("SCRIPT is a module."))
    ] = False,
    steps: Annotated[int, typer.Option(min=1, help=Text("Steps to record."))] = 3,
    skip: Annotated[
        int | None,
        typer.Option(
            min=1, help=Text("Steps to let pass; else till they settle (12 on several ranks).")
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(help=Text("What a step is: optimizer, backward or forward; else found out.")),
    ] = None,
    memory_history: Annotated[
        bool, typer.Option("--memory-history", help=Text("Also save the allocator's history."))
    ] = False,
    with_stack: Annotated[
        bool, typer.Option("--with-stack", help=Text("Also record Python stacks (slow, large)."))
    ] = False,
    output_dir: Annotated[
        Path, typer.Option(metavar="FOLDER", help=Text("Where trace, run and report go."))
    ] = FOLDER,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help=Text("The report, elsewhere."))
    ] = None,
    gpus: Annotated[
        int | None, typer.Option(min=1, help=Text("Start so many processes under torchrun."))
    ] = None,
    lang: given.Lang = None,
    quiet: given.Quiet = False,
) -> None:
    """Run a script unmodified; record a few of its steps; write a report when it ends."""
    from gpuscope.errors import UnknownNameError
    from gpuscope.measurement.script.ranks import Place
    from gpuscope.measurement.script.session import Session, Settings
    from gpuscope.program.script.runner import Program, check
    from gpuscope.views.i18n import choose_language

    language = choose_language(lang)
    program = Program(script, tuple(arguments or ()), module)
    if by not in (None, "optimizer", "backward", "forward"):
        raise UnknownNameError(Text("kind of step"), str(by), ("optimizer", "backward", "forward"))
    check(program)
    folder = _folder(output_dir, report)
    if gpus is not None:
        _under_torchrun(gpus)
    settings = Settings(
        steps=steps,
        skip=skip,
        by=by,  # type: ignore[arg-type]
        memory_history=memory_history,
        stacks=with_stack,
        name=program.name,
        world_size=Place.of().world_size,
        fresh=True,
    )
    _run(program, Session(settings), folder, report and report.absolute(), language, quiet)


def _folder(output_dir: Path, report: Path | None) -> Path:
    """The folder, made; absolute, since the script may go elsewhere."""
    from gpuscope.atomic import check_writable
    from gpuscope.errors import InputFileError

    if report is not None:
        check_writable(report)
    folder = output_dir.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputFileError(
            Text("Cannot make the folder {output_dir}.", output_dir=output_dir),
            str(error.strerror),
            Text("Choose --output-dir."),
        ) from error
    check_writable(folder / "run.json.gz")
    return folder


def _under_torchrun(gpus: int) -> None:
    """Become torchrun, which starts this command once for each process."""
    own = [a for i, a in enumerate(sys.argv[1:], start=1) if not _is_gpus(i)]
    torchrun = children.torchrun(gpus, "gpuscope", *own)
    sys.stdout.flush()
    os.execve(sys.executable, torchrun, children.environment())


def _is_gpus(at: int) -> bool:
    """Whether an argument of ours is --gpus, or its value; the script's own are left alone."""
    first = next(i for i, a in enumerate(sys.argv) if a.partition("=")[0] == "--gpus")
    return at == first or (at == first + 1 and sys.argv[first] == "--gpus")


def _run(
    program: object, session: Session, folder: Path, report: Path | None, lang: str, quiet: bool
) -> None:
    from gpuscope.measurement.script.ranks import Place, clear, say_done
    from gpuscope.program.script import runner

    assert isinstance(program, runner.Program)
    place, pid = Place.of(), os.getpid()
    clear(folder, place)
    runner.when_imported("torch", session.start)
    with doors_open():  # the script's own output is its own affair
        error = runner.run(program)
    if os.getpid() != pid:  # a forked child that came back here: it is not ours to report on
        runner.end_as(error)
        return
    try:
        session.stop()
        run = _collected(session, folder, place)
        if place.rank == 0:
            _write(run, session, folder, report, lang, quiet)
    except KeyboardInterrupt:
        error = error or KeyboardInterrupt()
    except Exception as failure:
        from gpuscope.cli.failure import report as tell

        tell(failure)  # the script's own end counts, not ours
    finally:
        say_done(folder, place, session.first_step)
    runner.end_as(error)


def _collected(session: Session, folder: Path, place: Place) -> Run | None:
    """Write this rank's trace; on rank 0 return the run of all; None without any step."""
    from gpuscope.measurement.script.ranks import wait_for_others

    trace = folder / place.trace_name()
    recorded = session.why_nothing() is None
    if recorded:
        session.export(trace)
    if not recorded or place.rank != 0:
        return None
    if place.world_size == 1:
        return session.run_of(trace)
    return session.run_of_all(folder, wait_for_others(folder, place))


def _write(
    run: Run | None, session: Session, folder: Path, report: Path | None, lang: str, quiet: bool
) -> None:
    from gpuscope.cli.progress import note
    from gpuscope.views.i18n import tr

    if run is None:
        nothing = session.why_nothing()
        what, then = nothing or ("", "")
        note(f"gpuscope: {render(what, lang)}\n→ {render(then, lang)}", quiet=False)
        return
    from gpuscope.atomic import write_document
    from gpuscope.run.document import run_document
    from gpuscope.views.html import write_report

    write_document(run_document(run), folder / "run.json.gz")
    page = report or folder / "report.html"
    write_report([run], page, lang)
    if session.history is not None:
        _write_history(session.history, folder / "memory.pickle")
    if not quiet:
        from gpuscope.views.terminal import make_console, render_headline
        from gpuscope.views.terminal.finding_panel import findings

        console = make_console(stderr=True)
        console.print(render_headline(run, lang))
        if run.analysis.findings:
            console.print(findings(run, lang))
    for sentence in session.problems:
        note(render(sentence, lang), quiet)
    note(tr("Wrote {path}", lang, path=f"{folder}/run.json.gz, {page}"), quiet)


def _write_history(history: object, path: Path) -> None:
    """The allocator's snapshot as PyTorch saves it, for `gpuscope analyze` and PyTorch's viewer."""
    import pickle

    from gpuscope.atomic import write_atomically

    write_atomically(path, pickle.dumps(history))
