"""State of the compiled core: its tables, blocks, and heap of ends; see `compiled`."""

from __future__ import annotations

from typing import NamedTuple

from numba import njit

from gpuscope.serving.compiled_cost import Floats, Ints

(
    STEP, KEYS, DECODING, PART, ENDS, HEAD, NEXT, USED, ROWS, FREED,
    SEEN, MAX_TOKENS, MAX_SEQUENCES, CHUNKED, KV_BLOCKS, CLOSED, OVERLAPS, GROUPS, MOST, STATE,
    TURNS, COMING, SAID, TOLD, TO_END, SET_FREE,
) = range(26)  # fmt: skip
"""Of `State.at`: steps so far, keys, sequences, the request that is half worked on (-1: none), ends
in the heap, first in the queue, next to come, blocks, rows, places that became free, the first that
is in no plan yet; the limits; turns of the front process, the first that is on its way through it,
iterations said to it and told by it, last tokens not yet told, and told since it was looked."""

(
    NOW, DEVICE, HOST, BEHIND, BUSY, PLANNED, FREE,
    LEAD, REPLY, TOKEN, SEND, ACCEPT, ACCEPT_TOKEN,
) = range(13)  # fmt: skip
"""Of `State.s`, as in `Replica`, and when the front process is; seconds from sending to the queue,
from an iteration out, of a token on its way, of a sequence whose tokens are sent, and of letting a
request in, by itself and for each token."""

KEPT = ("intended", "started", "first", "finished", "prefill", "behind", "device", "host")
INTENDED_S, STARTED_S, FIRST_S, FINISHED_S, PREFILL_S, BEHIND_S, DEVICE_S, HOST_S = range(8)
"""Of `State.record`, as in `Record`."""

INPUT, OUTPUT, HAVE, SINCE, LEFT, AFTER = range(6)
"""Of `State.request`: its tokens, those whose keys are there, the step at which it began to
decode, turns until it is in the queue, and which one ended before it in the same iteration."""

BEGUN, FIRST, SLOPE = range(3)
STEPS, TOKENS, OUT, FROM, UNTIL, LAST = range(6)
"""Of `State.said_s` and `State.said_n`, as in `front.Spoken`: first tokens of the requests from one
to another, and the last one that ended, -1 for none (see `AFTER`)."""

MOST_SAID = 1024
"""Iterations that the front process may be behind."""


class State(NamedTuple):
    """Tables of a few rows: few arrays, since each makes every function slower to compile.

    Attributes:
        at, s: what changes; see above.
        times: of arrival; of places that became free; in the queue; come to the front process.
        request, record: a column a request; see above.
        entry: totals when it began to decode.
        growth: as `Growth.counts`.
        ends: heap of steps, and requests.
        chunks: of an iteration: requests, tokens.
        row_s, row_n: a column a row of iterations.
        said_s, said_n: a column for equal iterations that are not yet told, in a ring.
    """

    at: Ints
    s: Floats
    times: Floats
    request: Ints
    record: Floats
    entry: Floats
    growth: Ints
    ends: Ints
    chunks: Ints
    row_s: Floats
    row_n: Ints
    said_s: Floats
    said_n: Ints


@njit(cache=True)  # type: ignore[untyped-decorator]
def ceil_div(tokens: int, size: int) -> int:
    """Blocks of that size that hold so many tokens."""
    return -(-tokens // size)


@njit(cache=True)  # type: ignore[untyped-decorator]
def beside(z: State, each: int) -> int:
    """As `Work.beside`."""
    whole = ceil_div(z.request[INPUT, each] + z.request[OUTPUT, each], len(z.growth))
    return int(z.at[GROUPS] * min(whole, z.at[MOST]) + z.at[STATE])


@njit(cache=True)  # type: ignore[untyped-decorator]
def taken(z: State, steps: int) -> int:
    """Blocks that so many steps take; see `Growth.taken`."""
    size, step = len(z.growth), z.at[STEP]
    if steps == 1:
        return int(z.growth[step % size])
    whole, rest = divmod(steps, size)
    count = whole * z.at[DECODING]
    for more in range(rest):
        count += z.growth[(step + more) % size]
    return int(count)


@njit(cache=True)  # type: ignore[untyped-decorator]
def roomy(z: State, steps: int) -> int:
    """As many of the steps as there are blocks for, one at least; 0: not even for one."""
    free = z.at[KV_BLOCKS] - z.at[USED]
    if taken(z, 1) > free:
        return 0
    if taken(z, steps) <= free:
        return steps
    low, high = 1, steps
    while high - low > 1:
        middle = (low + high) // 2
        if taken(z, middle) <= free:
            low = middle
        else:
            high = middle
    return low


@njit(cache=True)  # type: ignore[untyped-decorator]
def grow(z: State, steps: int) -> None:
    """As `Replica._advance`."""
    z.at[USED] += taken(z, steps)
    z.at[KEYS] += steps * z.at[DECODING]
    z.at[STEP] += steps


@njit(cache=True)  # type: ignore[untyped-decorator]
def push(z: State, step: int, each: int) -> None:
    """Into the heap of ends, by step, then by request."""
    end, who, at = z.ends[0], z.ends[1], z.at[ENDS]
    z.at[ENDS] = at + 1
    while at > 0:
        up = (at - 1) // 2
        if end[up] < step or (end[up] == step and who[up] < each):
            break
        end[at], who[at] = end[up], who[up]
        at = up
    end[at], who[at] = step, each


@njit(cache=True)  # type: ignore[untyped-decorator]
def pop(z: State) -> int:
    """Out of the heap of ends: its first request."""
    end, who, count = z.ends[0], z.ends[1], z.at[ENDS] - 1
    z.at[ENDS] = count
    top, step, each, at = who[0], end[count], who[count], 0
    while True:
        down = 2 * at + 1
        if down >= count:
            break
        right = down + 1
        if right < count and (
            end[right] < end[down] or (end[right] == end[down] and who[right] < who[down])
        ):
            down = right
        if step < end[down] or (step == end[down] and each < who[down]):
            break
        end[at], who[at] = end[down], who[down]
        at = down
    end[at], who[at] = step, each
    return int(top)
