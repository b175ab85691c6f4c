"""An option that takes one value and is given twice: the first value would be lost in silence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError

__all__ = ["refuse_repeated"]

_SEVERAL = {"--on": "--on h200,h100"}
"""Options that take several values at once, and how."""


def refuse_repeated(command: Any, args: Sequence[str]) -> None:
    """Refuse a command line that gives an option of one value more than once.

    Args:
        command: the verb, of the command-line library.
        args: what stands after the verb; after `--` it is the script's own.

    Raises:
        InvalidValueError: an option is given twice.
    """
    single = {
        name: parameter.opts[0]
        for parameter in command.params
        if getattr(parameter, "nargs", 0) == 1
        and not getattr(parameter, "multiple", True)
        and not getattr(parameter, "is_flag", True)
        for name in parameter.opts
        if name.startswith("--")
    }
    own = args[: args.index("--")] if "--" in args else args
    seen: dict[str, int] = {}
    for word in own:
        option = single.get(word.partition("=")[0])
        if option is not None:
            seen[option] = seen.get(option, 0) + 1
    twice = next((option for option, times in seen.items() if times > 1), None)
    if twice is None:
        return
    raise InvalidValueError(
        Text("{option} is given more than once.", option=twice),
        Text("It takes one value; which one is meant is not clear."),
        Text("Give several at once: {example}", example=_SEVERAL[twice])
        if twice in _SEVERAL
        else Text("Leave one of them out."),
    )
