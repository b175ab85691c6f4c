"""The common case compiled: one replica of vLLM, in order, nothing shared, nothing put off.

What `Replica` does with `schedulers.vllm`, to the last bit, thirty times as fast; where blocks run
out it gives up, and `Replica` serves the load from its beginning. Needs numba; the compiled code is
kept beside this file, or in the user's cache; numba makes it anew when this file changes, not when
`compiled_cost` or `compiled_state` do.
"""

from __future__ import annotations

from array import array
from math import ceil, inf, sqrt

import numpy as np
from numba import njit

from gpuscope.serving.batch import MOST_STEPS
from gpuscope.serving.compiled_cost import Cost, device_s, host_busy_s, step_s, tables
from gpuscope.serving.compiled_front import advance_front, end_token, first_token, next_s, say
from gpuscope.serving.compiled_state import (
    ACCEPT,
    BEHIND,
    BEHIND_S,
    BUSY,
    CHUNKED,
    CLOSED,
    COMING,
    DECODING,
    DEVICE,
    DEVICE_S,
    ENDS,
    FREED,
    HAVE,
    HEAD,
    HOST,
    HOST_S,
    INPUT,
    INTENDED_S,
    KEPT,
    KEYS,
    KV_BLOCKS,
    LEAD,
    LEFT,
    MAX_SEQUENCES,
    MAX_TOKENS,
    MOST_SAID,
    NEXT,
    NOW,
    OUTPUT,
    OVERLAPS,
    PART,
    PLANNED,
    PREFILL_S,
    ROWS,
    SEEN,
    SET_FREE,
    SINCE,
    STARTED_S,
    STEP,
    TO_END,
    TURNS,
    USED,
    State,
    beside,
    ceil_div,
    grow,
    pop,
    push,
    roomy,
    taken,
)
from gpuscope.serving.engine import Engine
from gpuscope.serving.iteration import IterationCost
from gpuscope.serving.record import ROW, Record
from gpuscope.serving.requests import Requests
from gpuscope.serving.schedulers import Beside, Limits

GOING, SERVED, GAVE_UP = 0, 1, 2


@njit(cache=True)  # type: ignore[untyped-decorator]
def _next_s(z: State) -> float:
    """When the next request is in the queue."""
    at = z.at[NEXT]
    if at >= z.times.shape[1]:
        return inf
    if z.at[CLOSED]:
        return float(z.times[1, at] + z.s[LEAD]) if at < z.at[FREED] else inf
    return float(z.times[0, at] + z.s[LEAD])


@njit(cache=True)  # type: ignore[untyped-decorator]
def _join(z: State, now: float) -> None:
    each = z.at[NEXT]
    if not _busy(z):
        z.s[NOW] = max(z.s[NOW], now)
    z.times[3, each] = now
    z.request[LEFT, each] = z.at[TURNS]
    z.record[INTENDED_S, each] = z.times[1, each] if z.at[CLOSED] else z.times[0, each]
    z.at[NEXT] = each + 1


@njit(cache=True)  # type: ignore[untyped-decorator]
def _busy(z: State) -> bool:
    """As `Replica.busy`."""
    work = z.at[HEAD] < z.at[NEXT] or z.at[PART] >= 0 or z.at[DECODING] > 0
    return bool(work or z.at[TO_END] > 0)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _planned(z: State) -> int:
    """Chunks of the next iteration; see `schedulers.vllm`."""
    size = len(z.growth)
    budget = z.at[MAX_TOKENS] - z.at[DECODING]
    free = z.at[KV_BLOCKS] - z.at[USED] - z.growth[z.at[STEP] % size]
    seats = z.at[MAX_SEQUENCES] - z.at[DECODING] - (z.at[PART] >= 0)
    count = 0
    each, head = z.at[PART], z.at[HEAD]
    while True:
        new = each < 0
        if new:
            if head >= z.at[SEEN]:
                return count
            each = head
            head += 1
        have = z.request[HAVE, each]
        left = z.request[INPUT, each] - have
        tokens = min(left, budget)
        if tokens <= 0 or (tokens < left and not z.at[CHUNKED] and budget < z.at[MAX_TOKENS]):
            return count
        if new and seats <= 0:
            return count
        more = beside(z, each) if new else 0
        need = ceil_div(have + tokens, size) - ceil_div(have, size) + more
        if need > free or (new and ceil_div(left, size) + more > free):
            return count
        z.chunks[0, count], z.chunks[1, count] = each, tokens
        count += 1
        budget, free = budget - tokens, free - need
        seats -= new
        each = -1


@njit(cache=True)  # type: ignore[untyped-decorator]
def _finish(z: State) -> None:
    size = len(z.growth)
    while z.at[ENDS] and z.ends[0, 0] <= z.at[STEP]:
        each = pop(z)
        z.growth[(z.request[SINCE, each] - z.request[HAVE, each]) % size] -= 1
        z.request[HAVE, each] += z.at[STEP] - z.request[SINCE, each]
        z.at[KEYS] -= z.request[HAVE, each]
        z.at[DECODING] -= 1
        z.record[DEVICE_S, each] += z.s[DEVICE] - z.entry[0, each]
        z.record[HOST_S, each] += z.s[HOST] - z.entry[1, each]
        z.record[BEHIND_S, each] += z.s[BEHIND] - z.entry[2, each]
        z.at[USED] -= ceil_div(z.request[HAVE, each], size) + beside(z, each)
        end_token(z, each)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _see(z: State, working: bool, until: float) -> bool:
    """As `Replica.comes` and `Replica.see`; False: nothing is to be done by then."""
    idle = not working and z.at[HEAD] == z.at[SEEN]
    if idle:
        ready_s = next_s(z, until)
        by_s = min(ready_s, until)
        if by_s < inf:
            z.s[NOW] = max(z.s[NOW], by_s)
        if ready_s > until or ready_s == inf or z.at[SET_FREE]:
            return False
    planned = z.s[PLANNED] if working and z.at[OVERLAPS] else z.s[NOW]
    while z.at[SEEN] < z.at[COMING] and z.times[2, z.at[SEEN]] <= planned:
        z.at[SEEN] += 1
        if idle and z.s[ACCEPT] > 0.0:
            break
    return True


@njit(cache=True)  # type: ignore[untyped-decorator]
def _row(
    z: State, begun: float, steps: int, device: float, host: float, tokens: int, decoding: int
) -> None:
    at = z.at[ROWS]
    z.at[ROWS] = at + 1
    z.s[BUSY] += device
    z.row_s[0, at], z.row_s[1, at], z.row_s[2, at] = begun, device, host
    z.row_n[0, at], z.row_n[1, at], z.row_n[2, at] = steps, tokens, decoding
    z.row_n[3, at], z.row_n[4, at] = z.at[USED], z.at[NEXT] - z.at[HEAD]


@njit(cache=True)  # type: ignore[untyped-decorator]
def _iterate(z: State, cost: Cost, count: int) -> bool:
    """An iteration with prompts; False: blocks run out."""
    decoding, size = z.at[DECODING], len(z.growth)
    if decoding and taken(z, 1) > z.at[KV_BLOCKS] - z.at[USED]:
        return False
    tokens, pairs, ended = 0, 0.0, 0
    for at in range(count):
        each, chunk = z.chunks[0, at], z.chunks[1, at]
        if each != z.at[PART]:
            z.at[HEAD] = each + 1
            z.record[STARTED_S, each] = z.s[NOW]
            z.at[USED] += beside(z, each)
        have = z.request[HAVE, each]
        pairs += chunk * have + chunk * (chunk + 1) / 2
        z.at[USED] += ceil_div(have + chunk, size) - ceil_div(have, size)
        z.request[HAVE, each] = have + chunk
        tokens += chunk
        ended += have + chunk >= z.request[INPUT, each]
    keys = float(z.at[KEYS] + decoding)
    device = device_s(cost, tokens, pairs, ended, decoding, keys)
    took = step_s(cost, device, decoding + count, tokens)
    begun = z.s[NOW]
    z.s[NOW] += took
    alone = device_s(cost, 0, 0.0, 0, decoding, keys) if decoding else 0.0
    rest = took - device
    z.s[DEVICE] += alone
    z.s[HOST] += rest if decoding else 0.0
    z.s[BEHIND] += took - alone - rest if decoding else took
    if decoding:
        grow(z, 1)
    z.s[PLANNED] = begun
    if not say(z, begun, took, 0.0, 1, decoding + ended):
        return False
    z.at[PART] = -1
    for at in range(count):
        each = z.chunks[0, at]
        z.record[PREFILL_S, each] += took
        if z.request[HAVE, each] < z.request[INPUT, each]:
            z.at[PART] = each
        else:
            _begin_decoding(z, each)
    _finish(z)
    _row(z, begun, 1, device, host_busy_s(cost, decoding + count, tokens), tokens, decoding)
    return True


@njit(cache=True)  # type: ignore[untyped-decorator]
def _begin_decoding(z: State, each: int) -> None:
    first_token(z, each)
    z.at[DECODING] += 1
    z.at[KEYS] += z.request[HAVE, each]
    z.request[SINCE, each] = z.at[STEP]
    z.growth[(z.at[STEP] - z.request[HAVE, each]) % len(z.growth)] += 1
    for which in range(3):
        z.entry[which, each] = z.s[DEVICE + which]
    push(z, z.at[STEP] + z.request[OUTPUT, each] - 1, each)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _stretch(z: State, cost: Cost, until: float) -> bool:
    """Decode until something changes; False: blocks run out."""
    sequences = z.at[DECODING]
    steps = roomy(z, max(min(z.ends[0, 0] - z.at[STEP], MOST_STEPS), 1))
    if not steps:
        return False
    keys = z.at[KEYS]
    first = step_s(
        cost, device_s(cost, 0, 0.0, 0, sequences, float(keys + sequences)), sequences, 0
    )
    last = device_s(cost, 0, 0.0, 0, sequences, float(keys + sequences * (steps + 1)))
    slope = (step_s(cost, last, sequences, 0) - first) / steps
    if z.at[COMING] < z.at[NEXT] or z.at[TO_END] > 0:
        steps = 1
    elif z.at[SEEN] < z.at[COMING]:
        rest = z.times[2, z.at[SEEN]] - z.s[NOW]
        more = _steps_until(rest, first, slope) + z.at[OVERLAPS] if rest > 0 else 1
        steps = min(steps, more)
    if until < inf and z.at[HEAD] == z.at[SEEN]:
        steps = min(steps, _steps_until(until + z.s[ACCEPT] - z.s[NOW], first, slope))
    took = steps * first + slope * steps * (steps - 1) / 2
    device = steps * device_s(cost, 0, 0.0, 0, sequences, keys + sequences * (steps + 1) / 2)
    begun = z.s[NOW]
    z.s[NOW] += took
    z.s[PLANNED] = z.s[NOW] - (first + slope * (steps - 1))
    if not say(z, begun, first, slope, steps, sequences):
        return False
    z.s[DEVICE] += min(device, took)
    z.s[HOST] += max(took - device, 0.0)
    grow(z, steps)
    _finish(z)
    _row(z, begun, steps, device, steps * host_busy_s(cost, sequences, 0), 0, sequences)
    return True


@njit(cache=True)  # type: ignore[untyped-decorator]
def _steps_until(seconds: float, first: float, slope: float) -> int:
    """As `batch.steps_until`."""
    if seconds <= 0:
        return 1
    if slope <= 1e-15:
        return max(1, ceil(seconds / first))
    b = first - slope / 2
    return max(1, ceil((-b + sqrt(b * b + 2 * slope * seconds)) / slope))


@njit(cache=True)  # type: ignore[untyped-decorator]
def advance(z: State, cost: Cost) -> int:
    """Serve until all is served, blocks run out, or there is no room for another row."""
    while z.at[ROWS] < z.row_s.shape[1]:
        until = _next_s(z)
        working = z.at[PART] >= 0 or z.at[DECODING] > 0
        z.at[SET_FREE] = 0
        if _busy(z) and z.s[NOW] < until:
            advance_front(z, z.s[NOW])
            if z.at[SET_FREE] or not _see(z, working, until):
                continue
            waiting = z.at[HEAD] < z.at[SEEN]
            count = _planned(z) if waiting or z.at[PART] >= 0 else 0
            if count:
                fits = _iterate(z, cost, count)
            else:
                fits = z.at[DECODING] > 0 and _stretch(z, cost, until)
            if not fits:
                return GAVE_UP
        elif until == inf:
            return SERVED
        else:
            _join(z, until)
    return GOING


def serve_compiled(
    requests: Requests, engine: Engine, limits: Limits, cost: IterationCost
) -> tuple[Record, Record] | None:
    """Serve requests on one replica: what became of them, and its iterations; None: it gave up."""
    z, priced = _state(requests, engine, limits), tables(cost, engine, limits)
    outcome = advance(z, priced)
    while outcome == GOING:
        z = z._replace(row_s=_longer(z.row_s), row_n=_longer(z.row_n))
        outcome = advance(z, priced)
    if outcome == GAVE_UP:
        return None
    record, rows, count = Record(len(requests)), Record(0), int(z.at[ROWS])
    for name, column in zip(KEPT, z.record, strict=True):
        record.column(name)[:] = column
    (begun, device, host), (steps, tokens, decoding, used, waiting) = z.row_s, z.row_n
    none = np.zeros(count, np.int64)
    columns = begun, steps, device, host, tokens, decoding, used, waiting, none
    rows.rows = tuple(
        array(kind, column[:count].tobytes()) for kind, column in zip(ROW, columns, strict=True)
    )
    rows.busy_s = float(z.s[BUSY])
    return record, rows


def _longer(rows: np.ndarray) -> np.ndarray:
    """Twice as many columns; memory is taken only as they are written."""
    made = np.zeros((rows.shape[0], 2 * rows.shape[1]), rows.dtype)
    made[:, : rows.shape[1]] = rows
    return made


def _state(requests: Requests, engine: Engine, limits: Limits) -> State:
    count, seats = len(requests), limits.max_sequences + 1
    at, rows = np.zeros(26, np.int64), 5 * count // 2 + 1000
    apart = limits.beside or Beside(groups=0, most=0, state=0)
    at[PART], at[FREED] = -1, min(requests.concurrency, count)
    at[MAX_TOKENS:COMING] = (
        limits.max_tokens, limits.max_sequences, limits.chunked, limits.kv_blocks,
        requests.concurrency > 0, engine.overlapped, apart.groups, apart.most, apart.state,
        engine.front_turns,
    )  # fmt: skip
    request = np.zeros((6, count), np.int64)
    request[INPUT], request[OUTPUT] = requests.input_tokens, requests.output_tokens
    return State(
        at,
        np.array(
            [0.0] * 7
            + [engine.request_s, engine.reply_s, engine.token_s, engine.send_s]
            + [engine.accept_s, engine.accept_token_s]
        ),
        np.array([requests.arrival_s, *np.zeros((3, count))]),
        request,
        np.zeros((8, count)),
        np.zeros((3, count)),
        np.zeros(limits.block_tokens, np.int64),
        np.zeros((2, seats), np.int64),
        np.zeros((2, seats), np.int64),
        np.zeros((3, rows)),
        np.zeros((5, rows), np.int64),
        np.zeros((3, MOST_SAID)),
        np.zeros((6, MOST_SAID), np.int64),
    )
