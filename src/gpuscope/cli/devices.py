"""`gpuscope devices`: what the catalogue knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.hardware import Device

# The catalogue and the tables are imported when the command runs, so that --help stays fast.


def register(app: typer.Typer) -> None:
    """Add the `devices` command to the application."""
    app.command("devices")(devices_command)


def devices_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(help=Text("One device for its card, several to compare, none for all.")),
    ] = None,
    vendor: Annotated[str | None, typer.Option(help=Text("Only this vendor."))] = None,
    min_memory: Annotated[
        str | None, typer.Option(help=Text("Only devices with at least this memory, such as 80GB."))
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help=Text("Only devices with a rate for this dtype, such as fp8."))
    ] = None,
    fields: Annotated[
        bool, typer.Option("--fields", help=Text("List the names of figures."))
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help=Text("Print JSON."))] = False,
    lang: Annotated[str | None, typer.Option(help=Text("Language: en or zh."))] = None,
) -> None:
    """List accelerators, show one with its sources, or compare several."""
    from gpuscope.views import devices as view
    from gpuscope.views.i18n import choose_language
    from gpuscope.views.terminal import make_console

    lang = choose_language(lang)
    console = make_console()
    if fields:
        console.print(view.field_table(lang))
        return
    chosen = _chosen(names or [], vendor, min_memory, dtype)
    if as_json:
        from gpuscope.document.plain import dumps

        typer.echo(dumps(view.devices_document(chosen), indent=2))
    elif names and len(names) > 1:
        console.print(view.comparison_table(chosen, lang))
    elif names:
        console.print(view.device_card(chosen[0], lang))
    else:
        console.print(view.device_table(chosen, lang))


def _chosen(
    names: list[str], vendor: str | None, min_memory: str | None, dtype: str | None
) -> list[Device]:
    """Return the named devices, or those of the catalogue that pass the filters."""
    from gpuscope.errors import InvalidValueError, UnknownNameError
    from gpuscope.hardware import device, devices, parse_quantity

    if names and (vendor or min_memory or dtype):
        raise InvalidValueError(
            Text("Filters apply to the list of all devices."),
            "",
            Text("Leave out the names or the filters."),
        )
    if names:
        return [device(name) for name in names]
    found = list(devices())
    if vendor:
        vendors = {d.vendor.lower() for d in found}
        if vendor.lower() not in vendors:
            raise UnknownNameError(Text("vendor"), vendor, vendors)
        found = [d for d in found if d.vendor.lower() == vendor.lower()]
    if min_memory:
        least = parse_quantity(min_memory, "bytes")
        found = [d for d in found if d.memory_bytes >= least]
    if dtype:
        found = [d for d in found if d.supports(dtype)]
    return found
