"""Users who read at once, each at so many tokens a second, as a rate of requests and a limit."""

from __future__ import annotations

from gpuscope.document.quantities import Number
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError

__all__ = ["at_once"]


def at_once(
    users: int | None, speed: float | None, answer: int, rate: float, slo: str | None
) -> tuple[float, str]:
    """Requests each second, and the limits with TPOT.

    Each user always has an answer coming in: it takes answer / speed seconds, so that
    users x speed / answer requests begin each second (Little's law).

    Args:
        users: how many at once.
        speed: tokens a second that each gets at least.
        answer: mean tokens of an answer.
        rate: requests each second that were given besides; 0: none.
        slo: limits that were given besides.

    Raises:
        InvalidValueError: one without the other, a rate besides, nothing or less.
    """
    example = Text("Type for example: --users 1000 --speed 50")
    if users is None or speed is None or rate:
        raise InvalidValueError(
            Text("Users and their speed are given together, in place of a rate."), "", example
        )
    if users < 1 or not 0 < speed < 1e6:
        raise InvalidValueError(
            Text(
                "{users} users at {speed} tokens a second cannot be.",
                users=users,
                speed=Number(speed, "g"),
            ),
            "",
            example,
        )
    limit = f"tpot<{1e3 / speed:.6f}ms"
    return users * speed / answer, f"{slo},{limit}" if slo else limit
