"""The application: a verb registers itself when it is named; an error becomes a panel and a code.

Nothing heavy is imported here (no torch, no rich), so that --help answers at once:
each verb imports what it needs when it runs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer

from gpuscope import __version__
from gpuscope.cli import interrupts_raise
from gpuscope.cli.speech import SpokenGroup
from gpuscope.document.printable import set_doors
from gpuscope.document.text import Text
from gpuscope.garbage import rare_collection

_EPILOG = Text(
    "Exit codes: 0 done; 1 unexpected error, nothing measured (load), or worse than the baseline "
    "(guard); 2 wrong input or a "
    "workload that cannot be predicted; 3 does not fit (predict: only with --must-fit; measure: "
    "out of memory), or doctor found an error; 130 interrupted."
)


class _Group(SpokenGroup):
    """Runs a verb; what it raises is told in a few words instead of a traceback."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The verb and its arguments; what is said twice is not taken from the last place."""
        name, command, rest = super().resolve_command(ctx, args)
        options = [word.partition("=")[0] for word in rest if word.startswith("--")]
        if command is not None and len(options) > len(set(options)):
            from gpuscope.cli.repeated import refuse_repeated

            refuse_repeated(command, rest)
        return name, command, rest

    def invoke(self, ctx: Any) -> Any:
        try:
            try:
                interrupts_raise(True)
                return super().invoke(ctx)
            finally:
                interrupts_raise(False)
                sys.stdout.flush()  # a full disk is told by us, not by Python's last moments
        except (Exception, KeyboardInterrupt) as error:
            interrupts_raise(False)  # one more came while that was done
            from gpuscope.cli.failure import is_foreign, report

            if is_foreign(error):
                raise
            raise typer.Exit(report(error, ctx)) from None


VERBS: tuple[str, ...] = (
    "predict",
    "measure",
    "profile",
    "analyze",
    "compare",
    "report",
    "guard",
    "advise",
    "plan",
    "fit",
    "optimize",
    "explain",
    "lens",
    "learn",
    "claims",
    "bench",
    "serve",
    "doctor",
    "watch",
    "load",
    "devices",
    "models",
    "schema",
    "mcp",
    "cache",
)
"""All verbs, each in the module of its name, in the order of --help."""


def make_app(verbs: Sequence[str] = VERBS) -> typer.Typer:
    """Return the application with some verbs; a verb's module is imported here."""
    made = typer.Typer(
        name="gpuscope",
        cls=_Group,
        help=Text("Open the GPU black box: predict, measure and explain any PyTorch workload."),
        epilog=_EPILOG,
        no_args_is_help=True,
        add_completion=False,
        # Rich help and tracebacks cost a tenth of a second at every start.
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    for verb in verbs:
        import_module(f"gpuscope.cli.{verb}").register(made)
    made.callback()(_options)
    return made


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gpuscope {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help=Text("Show the version.")
        ),
    ] = False,
) -> None:
    pass


def __getattr__(name: str) -> Any:
    """`app`, with every verb: made when it is asked for."""
    if name != "app":
        raise AttributeError(name)
    globals()["app"] = found = make_app()
    return found


def main() -> None:
    """Make the application for what was typed, and run it."""
    rare_collection()
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets "?" instead of a traceback.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    set_doors()  # to the end: Python itself may write after the last of our lines
    # A verb that is named needs no other's module; --help, or a word that is no verb, needs all.
    named = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    try:
        make_app((named,) if named in VERBS else VERBS)(prog_name="gpuscope")
    except OSError as error:  # --help and --version, which no verb runs for
        from gpuscope.cli.failure import report

        sys.exit(report(error))
