"""What an iteration costs, compiled: `IterationCost.device_s` and `Engine.step_s` on tables."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from gpuscope.serving.engine import Engine
from gpuscope.serving.iteration import KEYS, SEQUENCES, IterationCost
from gpuscope.serving.schedulers import Limits

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


SCALE, HOST, HOST_SEQUENCE, HOST_TOKEN, OVERLAPPED = range(5)
SERIAL, SERIAL_SEQUENCE, SERIAL_PROMPT, SERIAL_TOKEN, REACH, HOST_PROMPT = range(5, 11)
"""Of `Cost.figures`."""


class Cost(NamedTuple):
    """Tables of an `IterationCost` and figures of an `Engine`; see there.

    Attributes:
        by_tokens, by_rows: seconds of the blocks and of the output layer.
        rounded: captured size of a decode batch.
        prefill, near: points of the curves: pairs, seconds.
        sequences, keys, decode: grids of decoding, and its seconds.
        figures: see above.
    """

    by_tokens: Floats
    by_rows: Floats
    rounded: Ints
    prefill: Floats
    near: Floats
    sequences: Floats
    keys: Floats
    decode: Floats
    figures: Floats


def tables(cost: IterationCost, engine: Engine, limits: Limits) -> Cost:
    """All that an iteration within these limits can ask for."""
    most = limits.max_sequences + 2
    largest = max(limits.max_tokens + most, cost.rounded(most) + 1)
    figures = (
        cost.scale, engine.host_s, engine.host_sequence_s, engine.host_token_s, engine.overlapped,
        engine.serial_s, engine.serial_sequence_s, engine.serial_prompt_s, engine.serial_token_s,
        cost.reach, engine.host_prompt_s,
    )  # fmt: skip
    return Cost(
        np.array([0.0, *(cost.dense_s(n) + cost.link_s(n) for n in range(1, largest))]),
        np.array([cost.head_s(n) for n in range(2 * most)]),
        np.array([cost.rounded(n) for n in range(most)]),
        np.array([cost.prefill_s.x, cost.prefill_s.y]),
        np.array([cost.near_s.x, cost.near_s.y]),
        np.array(SEQUENCES, np.float64),
        np.array(KEYS, np.float64),
        np.array([curve.y for curve in cost.decode]),
        np.array(figures, np.float64),
    )


@njit(cache=True)  # type: ignore[untyped-decorator]
def _piece(x: Floats, value: float) -> int:
    """Of the points of a curve, the one that its piece for a value begins at."""
    after = int(np.searchsorted(x, value, side="right"))
    return min(max(after - 1, 0), len(x) - 2)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _curve(points: Floats, value: float) -> float:
    """As `Curve`."""
    x, y = points[0], points[1]
    at = _piece(x, value)
    return float(y[at] + (y[at + 1] - y[at]) * (value - x[at]) / (x[at + 1] - x[at]))


@njit(cache=True)  # type: ignore[untyped-decorator]
def device_s(
    cost: Cost, prefill: int, pairs: float, sampled: int, sequences: int, keys: float
) -> float:
    """As `IterationCost.device_s`."""
    tokens = prefill + sequences if prefill else cost.rounded[sequences]
    if not tokens:
        return 0.0
    rows = sampled + sequences
    seconds = cost.by_tokens[tokens] + cost.by_rows[rows if rows else 1]
    if prefill:
        seconds += _curve(cost.prefill, pairs)
        if cost.figures[REACH]:
            seconds += _curve(cost.near, min(pairs, prefill * cost.figures[REACH]))
    attention = 0.0
    if sequences:
        each = keys / sequences
        at, piece = _piece(cost.sequences, sequences), _piece(cost.keys, each)
        low, high = cost.sequences[at], cost.sequences[at + 1]
        share = (each - cost.keys[piece]) / (cost.keys[piece + 1] - cost.keys[piece])
        y, z = cost.decode[at], cost.decode[at + 1]
        a = y[piece] + (y[piece + 1] - y[piece]) * share
        b = z[piece] + (z[piece + 1] - z[piece]) * share
        attention = max(a + (b - a) * (sequences - low) / (high - low), 0.0)
    return float(cost.figures[SCALE] * (seconds + attention))


@njit(cache=True)  # type: ignore[untyped-decorator]
def host_busy_s(cost: Cost, sequences: int, tokens: int) -> float:
    """As `Engine.host_busy_s`."""
    figures = cost.figures
    busy = figures[HOST] + figures[HOST_SEQUENCE] * sequences + figures[HOST_TOKEN] * tokens
    return float(busy + figures[HOST_PROMPT] if tokens else busy)


@njit(cache=True)  # type: ignore[untyped-decorator]
def step_s(cost: Cost, device: float, sequences: int, tokens: int) -> float:
    """As `Engine.step_s`."""
    host = host_busy_s(cost, sequences, tokens)
    figures = cost.figures
    serial = figures[SERIAL] + figures[SERIAL_SEQUENCE] * sequences + figures[SERIAL_TOKEN] * tokens
    if tokens and sequences > 1:
        serial += figures[SERIAL_PROMPT]
    if cost.figures[OVERLAPPED]:
        return float(max(device, host) + serial)
    return float(device + host + serial)
