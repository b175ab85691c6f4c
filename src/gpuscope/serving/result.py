"""`Serving`: one type for a predicted and a measured run of a server under load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from gpuscope.document.printable import counted, short_repr
from gpuscope.serving.requests import Floats, Ints

SCHEMA = "gpuscope.serving"
SCHEMA_VERSION = 1

FINISHED, FAILED, TIMEOUT = 0, 1, 2
"""Values of `Served.status`."""

STATES = ("finished", "failed", "timeout")


def _floats() -> Floats:
    return np.zeros(0, np.float64)


def _ints() -> Ints:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """What became of each request, in the order of arrival. NaN: not known, or never happened.

    Optional columns are empty where nobody knows them.

    Attributes:
        intended_s: when it was meant to be sent, from the start of the run. In a closed loop, when
            its place became free.
        sent_s: when it really was; later where the client was late.
        input_tokens: of the prompt.
        output_tokens: that came.
        first_token_s: when the first came (client: its first piece of the stream).
        finished_s: when the last came, or when it failed.
        status: `FINISHED`, `FAILED`, `TIMEOUT`.
        reason: row in `Serving.reasons`, -1 for none.
        gap_p50_s, gap_p99_s, gap_max_s: between two tokens (ITL) of the request. Optional.
        queue_s: from arrival at the engine to its first work on it. Optional, as all below.
        prefill_s: of the engine's own work on the prompt.
        behind_s: decoding held up by others' prefill in the same iterations.
        decode_device_s, decode_host_s: decoding that the device, and that the host takes.
        preempted_s: from being put off to being back where it was.
        transfer_s: of its keys and values between machines.
        decode_s: of a server's own word, between its engine's first and last token.
        front_s: likewise, until the first token, the server's time outside its engine: reading
            the request, and what its front process has to do before it has that token.
        preemptions: how often it was put off.
        cached_tokens: of the prompt that were found in the prefix cache.
        replica: that served it.
    """

    intended_s: Floats
    sent_s: Floats
    input_tokens: Ints
    output_tokens: Ints
    first_token_s: Floats
    finished_s: Floats
    status: Ints
    reason: Ints
    gap_p50_s: Floats = field(default_factory=_floats)
    gap_p99_s: Floats = field(default_factory=_floats)
    gap_max_s: Floats = field(default_factory=_floats)
    queue_s: Floats = field(default_factory=_floats)
    prefill_s: Floats = field(default_factory=_floats)
    behind_s: Floats = field(default_factory=_floats)
    decode_device_s: Floats = field(default_factory=_floats)
    decode_host_s: Floats = field(default_factory=_floats)
    preempted_s: Floats = field(default_factory=_floats)
    transfer_s: Floats = field(default_factory=_floats)
    decode_s: Floats = field(default_factory=_floats)
    front_s: Floats = field(default_factory=_floats)
    preemptions: Ints = field(default_factory=_ints)
    cached_tokens: Ints = field(default_factory=_ints)
    replica: Ints = field(default_factory=_ints)

    def __len__(self) -> int:
        return len(self.intended_s)

    def __repr__(self) -> str:
        return short_repr(self, "", counted(len(self), "request"))


@dataclass(frozen=True, slots=True, eq=False)
class Iterations:
    """What the engine did step by step; stretches of equal steps may be one row.

    Attributes:
        start_s: when it began.
        steps: iterations that the row stands for.
        device_s, host_s: of all of them.
        prefill_tokens: worked on.
        decode_sequences: in each of its steps.
        kv_blocks_used: at its end.
        waiting: requests in the queue at its end.
        preemptions: in it.
        replica: whose it is.
    """

    start_s: Floats = field(default_factory=_floats)
    steps: Ints = field(default_factory=_ints)
    device_s: Floats = field(default_factory=_floats)
    host_s: Floats = field(default_factory=_floats)
    prefill_tokens: Ints = field(default_factory=_ints)
    decode_sequences: Ints = field(default_factory=_ints)
    kv_blocks_used: Ints = field(default_factory=_ints)
    waiting: Ints = field(default_factory=_ints)
    preemptions: Ints = field(default_factory=_ints)
    replica: Ints = field(default_factory=_ints)

    def __len__(self) -> int:
        return len(self.start_s)

    def __repr__(self) -> str:
        return short_repr(self, "", counted(len(self), "row"))


@dataclass(frozen=True, slots=True, eq=False)
class Serving:
    """A server under load, predicted or measured.

    Attributes:
        origin: "predicted" or "measured".
        model: its name.
        engine: "vllm", "sglang", ...; "" where the server does not say.
        engine_version: as far as known.
        devices: as text: "2xh200"; "" unknown.
        served: per request.
        reasons: why requests failed, one each (server's or our words), see `Served.reason`.
        settings: what was asked, by name: plain figures and words (rate, concurrency, tp, ...).
        iterations: per step; empty where unknown.
        kv_blocks: that the engine has; None unknown.
        kv_block_tokens: tokens of one; None unknown.
        energy_j: of all devices over the run; None unknown.
        relative_error: by metric ("ttft", "tpot", "e2e", "throughput"), half-width of the 80 %
            interval of a prediction, relative.
        saturated: more arrives than it can serve: means over such a queue say nothing.
        capacity_per_s: requests that it can serve each second; None unknown.
        client: what the load client says of itself ("lateness_p99_s", "processor_share", ...).
        server: what the server's metrics say ("queue_s", "kv_usage", ...).
        name: of the load ("poisson, 8 requests/s"), for titles.
        notes: what a reader should know.
    """

    origin: Literal["predicted", "measured"]
    model: str
    engine: str
    engine_version: str
    devices: str
    served: Served
    reasons: tuple[str, ...] = ()
    settings: Mapping[str, float | str] = field(default_factory=dict)
    iterations: Iterations = field(default_factory=Iterations)
    kv_blocks: int | None = None
    kv_block_tokens: int | None = None
    energy_j: float | None = None
    relative_error: Mapping[str, float] = field(default_factory=dict)
    saturated: bool = False
    capacity_per_s: float | None = None
    client: Mapping[str, float | str] = field(default_factory=dict)
    server: Mapping[str, float | str] = field(default_factory=dict)
    name: str = ""
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return short_repr(
            self, self.model, self.origin, self.engine, counted(len(self.served), "request")
        )
