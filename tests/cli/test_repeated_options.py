"""An option of one value that is given twice is refused; how to give several is told."""

from __future__ import annotations

import pytest

from gpuscope.cli.app import make_app
from gpuscope.cli.repeated import refuse_repeated
from gpuscope.errors import InvalidValueError


def command(verb: str) -> object:
    import typer

    return typer.main.get_command(make_app()).commands[verb]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("verb", "args"),
    [
        ("predict", ["gpt2", "--on", "h200", "--on", "h100"]),
        ("predict", ["gpt2", "--batch=1", "--batch", "2", "--on", "h200"]),
        ("explain", ["matmul", "1", "2", "3"]),
    ],
)
def test_twice_is_refused(verb: str, args: list[str]) -> None:
    if verb == "explain":
        refuse_repeated(command(verb), args)
        return
    with pytest.raises(InvalidValueError, match="more than once"):
        refuse_repeated(command(verb), args)


def test_once_each_and_a_scripts_own_options_are_fine() -> None:
    predict = command("predict")
    refuse_repeated(predict, ["gpt2", "--on", "h200,h100", "--quiet", "--quiet"])
    refuse_repeated(predict, ["train.py", "--on", "h200", "--", "--on", "1", "--on", "2"])
