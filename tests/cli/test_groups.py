"""Groups of options: spread out on the command line, put together for the command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from gpuscope.cli.groups import Group, grouped


@dataclass(frozen=True)
class Size:
    width: int
    height: int = 7


WIDTH = Annotated[int, typer.Option(help="From left to right.")]
HEIGHT = Annotated[int, typer.Option("--height", "-h")]
GROUP = Group({"width": (WIDTH, 3), "height": (HEIGHT, 4)}, Size)

Sized = Annotated[Size, GROUP]
Flat = Annotated["Size", GROUP.without("height")]
Names = Annotated[list[str] | None, typer.Argument()]
Listed = Annotated[tuple[str, ...], Group({"names": (Names, None)}, lambda names: tuple(names))]

given: list[object] = []


def _draw(
    where: str, *, size: Sized, names: Listed, flat: Annotated[bool, typer.Option()] = False
) -> None:
    """Draw it."""
    given[:] = [where, size, names, flat]


def _line(*, size: Flat) -> None:
    given[:] = [size]


@pytest.fixture
def app() -> typer.Typer:
    made = typer.Typer()
    made.command("draw")(grouped(_draw))
    made.command("line")(grouped(_line))
    return made


def test_a_command_gets_what_the_group_makes(app: typer.Typer) -> None:
    done = CliRunner().invoke(app, ["draw", "here", "a", "b", "--width", "5", "-h", "6", "--flat"])
    assert done.exit_code == 0, done.output
    assert given == ["here", Size(5, 6), ("a", "b"), True]


def test_members_have_their_defaults(app: typer.Typer) -> None:
    assert CliRunner().invoke(app, ["draw", "here", "a"]).exit_code == 0
    assert given == ["here", Size(3, 4), ("a",), False]


def test_without_a_member_its_maker_decides(app: typer.Typer) -> None:
    assert CliRunner().invoke(app, ["line", "--width", "2"]).exit_code == 0
    assert given == [Size(2, 7)]
    assert CliRunner().invoke(app, ["line", "--height", "2"]).exit_code == 2


def test_help_lists_members_where_the_group_stands(app: typer.Typer) -> None:
    text = CliRunner().invoke(app, ["draw", "--help"]).output
    assert "Draw it." in text
    assert "From left to right." in text
    assert text.index("--width") < text.index("--height") < text.index("--flat")
