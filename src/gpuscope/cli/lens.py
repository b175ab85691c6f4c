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
                "A function without arguments that makes small data and launches the kernel; or "
                "a kernel in CUDA C: vecadd.cu:vecAdd."
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
    grid: Annotated[
        str | None, typer.Option(metavar="X[,Y,Z]", help=Text("CUDA C: blocks of the launch."))
    ] = None,
    block: Annotated[
        str | None, typer.Option(metavar="X[,Y,Z]", help=Text("CUDA C: threads of a block."))
    ] = None,
    arg: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help=Text(
                "CUDA C: an argument; for a pointer how many elements it has, and what they are: "
                "n=1000, a=64x64, keys=4096:random (zeros, ones, range)."
            ),
        ),
    ] = None,
    shared: Annotated[
        int, typer.Option(metavar="BYTES", help=Text("CUDA C: dynamic shared memory."), min=0)
    ] = 0,
    *,
    shown: given.Where,
) -> None:
    """Run a Triton, Numba-CUDA or CUDA C kernel on the CPU and show what its warps ask of memory.

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
            seen = look(
                launch,
                on,
                limit=DEFAULT_LIMIT if limit is None else limit,
                grid=grid,
                block=block,
                arguments=_arguments(arg or []),
                shared_bytes=shared,
            )
        if seen.printed.strip():
            note(seen.printed.rstrip(), shown.quiet or shown.as_json)
        return seen.explanation()

    given.show(make, shown)


def _arguments(given: list[str]) -> dict[str, str]:
    from gpuscope.errors import InvalidValueError

    found = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals:
            raise InvalidValueError(
                Text("The argument {given} has no value.", given=each),
                "",
                Text("Type: --arg {name}=1024", name=name),
            )
        found[name.strip()] = value.strip()
    return found
