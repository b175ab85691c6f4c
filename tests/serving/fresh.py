"""A small deployment whose iterations cost what the test says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gpuscope.serving.engine import Engine, engine
from gpuscope.serving.fleet import serve_all
from gpuscope.serving.iteration import KEYS, SEQUENCES, Curve, IterationCost
from gpuscope.serving.record import Record
from gpuscope.serving.requests import Requests
from gpuscope.serving.schedulers import Limits

Cost = Callable[[int, float, int, int, float], float]


def linear(prefill: int, pairs: float, sampled: int, sequences: int, keys: float) -> float:
    """A cost with a part of each sum."""
    return 1e-3 + 2e-5 * prefill + 1e-9 * pairs + 5e-5 * sequences + 2e-8 * keys


def joint(ranks: int, **more: object) -> IterationCost:
    """Of ranks that attend apart: 1 ms, a part of each sum of a rank, and of the tokens of all."""
    flat = Curve((0.0, 1.0), (0.0, 0.0))
    keys = tuple(Curve(KEYS, tuple(2e-8 * n * each for each in KEYS)) for n in SEQUENCES)
    made = IterationCost(
        dense_s=Curve((0.0, 1.0), (1e-3, 1e-3 + 2e-5)), head_s=flat, link_s=flat,
        prefill_s=Curve((0.0, 1.0), (0.0, 1e-9)), decode=keys,
        joint_s=Curve((0.0, 1.0), (0.0, 3e-5 if ranks > 1 else 0.0)), ranks=ranks,
    )  # fmt: skip
    return replace(made, **more)  # type: ignore[arg-type]


def bare(name: str = "vllm", **more: object) -> Engine:
    """An engine whose host takes no time."""
    free = {"host_s": 0.0, "host_sequence_s": 0.0, "request_s": 0.0, "reply_s": 0.0}
    free |= {
        "token_s": 0.0,
        "send_s": 0.0,
        "overlapped": False,
        "accept_s": 0.0,
        "accept_token_s": 0.0,
    }
    free |= {
        "serial_s": 0.0,
        "serial_sequence_s": 0.0,
        "serial_prompt_s": 0.0,
        "serial_token_s": 0.0,
    }
    return replace(engine(name), graph_sizes=(), **(free | more))  # type: ignore[arg-type]


def limits(
    blocks: int = 100_000, sequences: int = 256, tokens: int = 2048, **more: object
) -> Limits:
    """Of an iteration."""
    made = Limits(
        max_tokens=tokens, max_sequences=sequences, chunked=True, reserve=1.0,
        kv_blocks=blocks, block_tokens=16,
    )  # fmt: skip
    return replace(made, **more)  # type: ignore[arg-type]


def asked(times: list[float], inputs: list[int], outputs: list[int], places: int = 0) -> Requests:
    """Requests by hand."""
    return Requests(np.array(times, float), np.array(inputs), np.array(outputs), concurrency=places)


def run(requests: Requests, room: Limits, name: str = "vllm", cost: Cost = linear) -> Record:
    """Serve them."""
    return served(requests, bare(name), room, cost)


def served(requests: Requests, how: Engine, room: Limits, cost: Cost = linear) -> Record:
    """Serve them on one replica: requests and rows in one record."""
    record, rows, _ = serve_all(requests, how, room, cost)
    record.rows = rows[0].rows
    return record
