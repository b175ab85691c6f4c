"""`gpuscope lens`: run a Triton or Numba-CUDA kernel on the CPU and see what its warps ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gpuscope.cli import explanations as given
from gpuscope.cli.groups import grouped
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.document.blocks import Explanation


def register(app: typer.Typer) -> None:
    """Add the `lens` command to the application."""
    app.command("lens", short_help=Text("See what a kernel's warps ask of memory, line by line."))(
        grouped(lens_command)
    )


def lens_command(
    launch: Annotated[
        str,
        typer.Argument(
            metavar="FILE:FUNCTION",
            help=Text(
                "A function without arguments that makes small data and launches the kernel."
            ),
        ),
    ],
    on: given.On = "h200",
    limit: Annotated[
        int | None,
        typer.Option(
            help=Text("Stop after so many accesses and line visits; 2,000,000 by default.")
        ),
    ] = None,
    *,
    shown: given.Where,
) -> None:
    """Run a Triton or Numba-CUDA kernel on the CPU and show what its warps ask of memory.

    The kernel runs in Triton's interpreter or Numba's simulator with the small data that the
    function makes. Each access is recorded: sectors per request, bank conflicts, inactive lanes,
    reuse, and bytes against the least possible, by line of the source.
    """

    def make() -> Explanation:
        from gpuscope.cli.progress import note, progress
        from gpuscope.kernel_lens.recorder import DEFAULT_LIMIT
        from gpuscope.kernel_lens.runner import look
        from gpuscope.views.i18n import choose_language, tr

        with progress(shown.quiet or shown.as_json) as say:
            say(tr("Running {name} in the simulator …", choose_language(shown.lang), name=launch))
            seen = look(launch, on, limit=DEFAULT_LIMIT if limit is None else limit)
        if seen.printed.strip():
            note(seen.printed.rstrip(), shown.quiet or shown.as_json)
        return seen.explanation()

    given.show(make, shown)
