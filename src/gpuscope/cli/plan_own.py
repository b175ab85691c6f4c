"""`gpuscope plan train.py:build`: what to run the user's own code on, and how."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpuscope.document.text import Text

if TYPE_CHECKING:
    import typer

    from gpuscope.cli.explanations import Shown
    from gpuscope.document.blocks import Explanation

_UNKNOWN = (
    *("task", "method", "rank", "targets", "seq", "tokens", "framework", "check", "grid", "days"),
    *("device_set", "users", "speed", "rate", "input", "answer", "slo", "engine", "dtype"),
    "kv_dtype",
)
"""Options of `plan` that are about built-in decoders."""


def show_own(
    context: typer.Context,
    target: str,
    on: str,
    devices: str,
    global_batch: int,
    goal: str,
    simulate: int,
    prices: Path | None,
    why: str | None,
    shown: Shown,
) -> None:
    """Answer where the user wants it.

    Raises:
        InvalidValueError: an option that the code itself decides was typed.
    """
    from gpuscope.cli.explanations import show
    from gpuscope.cli.simulating import simulating
    from gpuscope.errors import InvalidValueError
    from gpuscope.planning.own.explanation import explained_own
    from gpuscope.planning.own.search import question_of_own, search_own
    from gpuscope.views.i18n import choose_language

    def typed(name: str) -> bool:
        source = context.get_parameter_source(name)
        return source is not None and source.name == "COMMANDLINE"

    for name in _UNKNOWN:
        if typed(name):
            option = "for" if name == "framework" else name.replace("_", "-")
            raise InvalidValueError(
                Text("A plan of your own code has no --{option}.", option=option),
                Text("The code says itself what it trains."),
                Text("Leave it out."),
            )
    question = question_of_own(
        target,
        on=on,
        devices=devices if typed("devices") else None,
        goal=goal,
        global_batch=global_batch if typed("global_batch") else None,
        simulate=simulate,
        prices=prices,
    )
    lang = choose_language(shown.lang)

    def make() -> Explanation:
        with simulating(shown.quiet, lang) as tell:
            return explained_own(search_own(question, tell), why)

    show(make, shown)
