"""What a command gets is what typer's own converters give it, whichever took the value."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from gpuscope.cli.groups import AsGiven
from gpuscope.cli.speech import SpokenGroup


def command(cls: Any, got: dict[str, Any]) -> typer.Typer:
    app = typer.Typer(cls=cls, add_completion=False)

    @app.command()
    def other() -> None:
        """Two commands make a group."""

    @app.command()
    def one(
        name: str,
        rest: Annotated[list[str] | None, typer.Argument()] = None,
        text: Annotated[str | None, typer.Option()] = None,
        count: Annotated[int | None, typer.Option(min=1)] = None,
        depth: Annotated[int, typer.Option(max=20)] = 16,
        share: Annotated[float, typer.Option()] = 0.5,
        each: Annotated[list[int] | None, typer.Option()] = None,
        file: Annotated[Path | None, typer.Option()] = None,
        upper: Annotated[str, typer.Option(parser=str.upper)] = "a",
        flag: Annotated[bool, typer.Option("--flag/--no-flag")] = False,
    ) -> None:
        got.update(locals())
        got.pop("got")

    return app


@pytest.mark.parametrize(
    "line",
    [
        "one name",
        "one name a b --text x --count 3 --share 0.25",
        "one name --each 1 --each 2 --file a/b --upper xyz --flag",
        "one 名 --text é",
        "one name --count 0",
        "one name --count 007",
        "one name --depth 21",
        "one name --count 123456789012",
        "one name --count 5 é b",
        "one name --count x",
        "one name --each x",
        "one",
        "one name --no-flag --text ''",
    ],
)
def test_values_and_mistakes_are_typers(line: str) -> None:
    ours: dict[str, Any] = {}
    theirs: dict[str, Any] = {}
    own = CliRunner().invoke(command(SpokenGroup, ours), line.split())
    plain = CliRunner().invoke(command(typer.core.TyperGroup, theirs), line.split())
    assert ours == theirs
    assert {k: type(v) for k, v in ours.items()} == {k: type(v) for k, v in theirs.items()}
    assert own.exit_code == plain.exit_code


@pytest.mark.parametrize("arguments", [["devices"], ["predict", "no-such-model"]])
def test_a_command_that_is_typed_in_full_needs_no_pydantic(arguments: list[str]) -> None:
    if not hasattr(typer.core.TyperOption, "get_runtime_param"):
        pytest.skip("this typer converts without pydantic")
    code = (
        "import sys; from gpuscope.cli.app import main\n"
        f"sys.argv = ['gpuscope', *{arguments}]\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print('pydantic' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.split()[-1] == "False"


def test_another_typer_is_left_alone() -> None:
    from gpuscope.cli.groups import take_as_given

    parameter = type("Parameter", (), {})()
    take_as_given([parameter])
    assert not isinstance(getattr(parameter, "_runtime_param", None), AsGiven)
