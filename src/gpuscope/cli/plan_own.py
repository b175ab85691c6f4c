"""`gpuscope plan train.py:build`: what to run the user's own code on, and how."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuscope.document.text import Text

if TYPE_CHECKING:
    import typer

    from gpuscope.cli.explanations import Shown
    from gpuscope.cli.plan_asked import Asked, Wanted
    from gpuscope.document.blocks import Explanation

_UNKNOWN = (
    *("task", "preset", "method", "rank", "targets", "seq", "tokens", "check", "days", "no_cache"),
    *("precision", "states", "offload", "sp", "etp"),
    *("users", "speed", "rate", "input", "answer", "slo", "engine", "dtype", "kv_dtype"),
)
"""Options of `plan` that are about built-in decoders."""


_ASKED = (
    "on",
    "devices",
    "goal",
    "global_batch",
    "simulate",
    "prices",
    "grid",
    "device_set",
    "limit",
)
"""What it takes of that which every task is asked."""


def show_own(
    context: typer.Context, target: str, asked: Asked, wanted: Wanted, shown: Shown
) -> None:
    """Answer where the user wants it.

    Raises:
        InvalidValueError: an option that the code itself decides was typed.
        UnknownNameError, UnsupportedError: a framework that starts no such code.
    """
    from gpuscope.cli.explanations import show
    from gpuscope.cli.simulating import simulating
    from gpuscope.errors import InvalidValueError
    from gpuscope.planning.own.explanation import SPEECH, explained_own
    from gpuscope.planning.own.search import question_of_own, search_own
    from gpuscope.planning.own.writers import check_framework
    from gpuscope.views.i18n import choose_language

    def typed(name: str) -> bool:
        source = context.get_parameter_source(name)
        return source is not None and source.name == "COMMANDLINE"

    for name in _UNKNOWN:
        if typed(name):
            raise InvalidValueError(
                Text("A plan of your own code has no --{option}.", option=name.replace("_", "-")),
                Text("The code says itself what it trains."),
                Text("Leave it out."),
            )
    why, framework = wanted.why, wanted.framework
    if framework is not None:
        check_framework(framework)
    if why is not None:
        SPEECH.check(why)
    own = {name: None for name in ("devices", "global_batch") if not typed(name)}
    given: dict[str, Any] = {name: getattr(asked, name) for name in _ASKED}
    question = question_of_own(target, **(given | own))
    lang = choose_language(shown.lang)

    def make() -> Explanation:
        with simulating(shown.quiet, lang) as tell:
            return explained_own(search_own(question, tell), why, framework)

    show(make, shown)
