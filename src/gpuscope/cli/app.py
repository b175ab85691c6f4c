"""The application: every verb registers itself; errors become a panel and an exit code.

Nothing heavy is imported here (no torch, no rich), so that --help answers at once:
each verb imports what it needs when it runs.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from gpuscope import __version__
from gpuscope.cli import (
    advise,
    analyze,
    bench,
    claims,
    compare,
    devices,
    doctor,
    explain,
    learn,
    lens,
    measure,
    models,
    optimize,
    predict,
    profile,
    watch,
)

_EPILOG = (
    "Exit codes: 0 done; 1 unexpected error; 2 wrong input or a workload that cannot be "
    "predicted; 3 does not fit (predict: only with --must-fit; measure: out of memory), or doctor "
    "found an error; 130 interrupted."
)


class _Group(TyperGroup):
    """Runs a verb; what it raises is told in a few words instead of a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (Exception, KeyboardInterrupt) as error:
            from gpuscope.cli.failure import is_foreign, report

            if is_foreign(error):
                raise
            raise typer.Exit(report(error, ctx)) from None


app = typer.Typer(
    name="gpuscope",
    cls=_Group,
    help="Open the GPU black box: predict, measure and explain any PyTorch workload.",
    epilog=_EPILOG,
    no_args_is_help=True,
    add_completion=False,
    # Rich help and tracebacks cost a tenth of a second at every start.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

for _verb in (
    predict, measure, profile, analyze, compare, advise, optimize, explain, lens, learn, claims,
    bench, doctor, watch, devices, models,
):  # fmt: skip
    _verb.register(app)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gpuscope {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; the console script `gpuscope`.

    Cyclic garbage collection is rare here: a command lives for seconds and makes millions of
    objects that stay, and searching them for cycles took a quarter of its time.
    """
    import gc
    import sys

    gc.set_threshold(500_000, 20, 100)

    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets "?" instead of a traceback.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    app(prog_name="gpuscope")
