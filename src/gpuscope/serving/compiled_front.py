"""The front process compiled: what `front.Front` does, to the last bit; see `compiled`.

Requests come in order, so that those on their way are the ones from `COMING` to `NEXT`, and those
in the queue the ones from `SEEN` to `COMING`.
"""

from __future__ import annotations

from math import inf

from numba import njit

from gpuscope.serving.compiled_state import (
    ACCEPT,
    ACCEPT_TOKEN,
    AFTER,
    BEGUN,
    CLOSED,
    COMING,
    FINISHED_S,
    FIRST,
    FIRST_S,
    FREE,
    FREED,
    FROM,
    INPUT,
    LAST,
    LEFT,
    MOST_SAID,
    NEXT,
    OUT,
    REPLY,
    SAID,
    SEEN,
    SEND,
    SET_FREE,
    SLOPE,
    STEPS,
    TO_END,
    TOKEN,
    TOKENS,
    TOLD,
    TURNS,
    UNTIL,
    State,
)
from gpuscope.serving.front import TOGETHER


@njit(cache=True)  # type: ignore[untyped-decorator]
def say(z: State, begun: float, first: float, slope: float, steps: int, tokens: int) -> bool:
    """As `Front.say`; False: there is no room for more."""
    if z.at[SAID] - z.at[TOLD] >= MOST_SAID:
        return False
    at = z.at[SAID] % MOST_SAID
    z.at[SAID] += 1
    z.said_s[BEGUN, at], z.said_s[FIRST, at], z.said_s[SLOPE, at] = begun, first, slope
    z.said_n[STEPS, at], z.said_n[TOKENS, at], z.said_n[OUT, at] = steps, tokens, 0
    z.said_n[FROM, at], z.said_n[UNTIL, at], z.said_n[LAST, at] = 0, 0, -1
    return True


@njit(cache=True)  # type: ignore[untyped-decorator]
def first_token(z: State, each: int) -> None:
    """As `Front.first`."""
    at = (z.at[SAID] - 1) % MOST_SAID
    if z.said_n[FROM, at] == z.said_n[UNTIL, at]:
        z.said_n[FROM, at] = each
    z.said_n[UNTIL, at] = each + 1


@njit(cache=True)  # type: ignore[untyped-decorator]
def end_token(z: State, each: int) -> None:
    """As `Front.end`."""
    at = (z.at[SAID] - 1) % MOST_SAID
    z.request[AFTER, each] = z.said_n[LAST, at]
    z.said_n[LAST, at] = each
    z.at[TO_END] += 1


@njit(cache=True)  # type: ignore[untyped-decorator]
def next_s(z: State, by_s: float) -> float:
    """As `Front.next_s`."""
    while z.at[SEEN] == z.at[COMING] and not z.at[SET_FREE]:
        begin = _begin_s(z)
        if begin > by_s or begin == inf:
            return inf
        _turn(z, begin)
    return float(z.times[2, z.at[SEEN]]) if z.at[SEEN] < z.at[COMING] else inf


@njit(cache=True)  # type: ignore[untyped-decorator]
def advance_front(z: State, by_s: float) -> None:
    """As `Front.advance`."""
    while not z.at[SET_FREE]:
        begin = _begin_s(z)
        if begin > by_s or begin == inf:
            return
        _turn(z, begin)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _end_s(z: State, at: int, step: int) -> float:
    more = z.said_s[SLOPE, at] * step * (step - 1) / 2
    return float(z.said_s[BEGUN, at] + step * z.said_s[FIRST, at] + more)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _begin_s(z: State) -> float:
    comes = float(z.times[3, z.at[COMING]]) if z.at[COMING] < z.at[NEXT] else inf
    if z.at[TOLD] < z.at[SAID]:
        at = z.at[TOLD] % MOST_SAID
        comes = min(comes, _end_s(z, at, z.said_n[OUT, at] + 1))
    return float(max(z.s[FREE], comes))


@njit(cache=True)  # type: ignore[untyped-decorator]
def _turn(z: State, begin: float) -> None:
    if z.at[COMING] == z.at[NEXT] and _quiet(z, begin):
        return
    told, tokens, most = z.at[TOLD], 0, 0
    while z.at[TOLD] < z.at[SAID]:
        at = z.at[TOLD] % MOST_SAID
        while (
            z.said_n[OUT, at] < z.said_n[STEPS, at]
            and _end_s(z, at, z.said_n[OUT, at] + 1) <= begin
        ):
            z.said_n[OUT, at] += 1
            tokens += z.said_n[TOKENS, at]
            most = max(most, z.said_n[TOKENS, at])
        if z.said_n[OUT, at] < z.said_n[STEPS, at]:
            break
        z.at[TOLD] += 1
    end = begin + (tokens * z.s[TOKEN] + most * z.s[SEND])
    for each in range(z.at[COMING], min(z.at[NEXT], z.at[COMING] + TOGETHER)):
        if z.times[3, each] > begin:
            break
        end += (z.s[ACCEPT] + z.s[ACCEPT_TOKEN] * z.request[INPUT, each]) / z.at[TURNS]
        z.request[LEFT, each] -= 1
    while z.at[COMING] < z.at[NEXT] and z.request[LEFT, z.at[COMING]] <= 0:
        z.times[2, z.at[COMING]] = end
        z.at[COMING] += 1
    z.s[FREE] = end
    for said in range(told, z.at[TOLD]):
        _told(z, said % MOST_SAID, end + z.s[REPLY])


@njit(cache=True)  # type: ignore[untyped-decorator]
def _quiet(z: State, begin: float) -> bool:
    at = z.at[TOLD] % MOST_SAID
    out, steps = z.said_n[OUT, at], z.said_n[STEPS, at]
    if steps - out < 2:
        return False
    first, slope = z.said_s[FIRST, at], z.said_s[SLOPE, at]
    shortest = min(first + slope * out, first + slope * (steps - 1))
    busy = z.said_n[TOKENS, at] * (z.s[TOKEN] + z.s[SEND])
    if begin > _end_s(z, at, out + 1) or busy > shortest:
        return False
    z.said_n[OUT, at] = steps - 1
    return True


@njit(cache=True)  # type: ignore[untyped-decorator]
def _told(z: State, at: int, out_s: float) -> None:
    for each in range(z.said_n[FROM, at], z.said_n[UNTIL, at]):
        z.record[FIRST_S, each] = out_s
    each = z.said_n[LAST, at]
    while each >= 0:
        z.record[FINISHED_S, each] = out_s
        z.at[TO_END] -= 1
        z.at[SET_FREE] = 1
        if z.at[CLOSED] and z.at[FREED] < z.times.shape[1]:
            z.times[1, z.at[FREED]] = out_s
            z.at[FREED] += 1
        each = z.request[AFTER, each]
