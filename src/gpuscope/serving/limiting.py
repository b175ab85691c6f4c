"""What limits a serving run, as findings: room, seats, tokens, the host, the memory, the links.

Each is a share of the time in which the engine worked, from its iterations. A queue is no limit's
fault unless somebody waits while the limit is reached.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from gpuscope.analysis.types import Finding
from gpuscope.document.blocks import Column, Table
from gpuscope.document.quantities import Number, Percent
from gpuscope.document.text import Text, joined
from gpuscope.errors import GpuscopeError
from gpuscope.hardware import parse_target
from gpuscope.serving.iteration import Curve, IterationCost
from gpuscope.serving.quantization import KINDS, kinds_on
from gpuscope.serving.requests import Floats
from gpuscope.serving.result import Iterations, Serving

FULL = 0.95
"""Of a limit, from which on it counts as reached."""

LEAST = 0.05
"""Share of the time below which a limit is not told."""


def limiting(run: Serving) -> tuple[Finding, ...]:
    """What limits: first what some wait for, then what sets the pace, the largest share first.

    Nothing where iterations, or the engine's limits, are not known.
    """
    rows = run.iterations
    if not len(rows) or "max_tokens" not in run.settings:
        return ()
    told = []
    for sort in (_limits(run, rows), _device(run, rows)):
        reached = sorted(sort, key=lambda each: -each[0])
        told += [finding for share, finding in reached if share >= LEAST]
    return tuple(told)


def limits_table(found: Sequence[Finding]) -> Table:
    """Findings with what they rest on, and what to try."""
    columns = (Column(Text("what")), Column(Text("evidence")), Column(Text("try")))
    rows = tuple((each.title, each.evidence, each.hint) for each in found)
    return Table(Text("What limits"), columns, rows)


def device_shares(
    cost: IterationCost, weights_s: float | None, rows: Iterations
) -> dict[str, float]:
    """Of the device's time: reading all weights once an iteration, and sums over ranks.

    Args:
        cost: of an iteration.
        weights_s: to read one rank's weights at the memory's rate; None: not all are read.
        rows: iterations.
    """
    whole = float(rows.device_s.sum())
    if whole <= 0:
        return {}
    tokens = rows.prefill_tokens + rows.decode_sequences
    moved = float((rows.steps * _at(cost.link_s, tokens)).sum()) * cost.scale
    found = {"link_share": moved / whole}
    if weights_s is not None:
        found["weights_share"] = float(rows.steps.sum()) * weights_s / whole
    return found


def _at(curve: Curve, x: np.ndarray) -> Floats:
    found: Floats = np.interp(x, curve.x, curve.y)
    return found


NARROW = ("fp8", "int4")
"""Weights of fewer bits: quickest where the device multiplies in them, else unpacked."""


def narrower(run: Serving) -> list[Text]:
    """How to ask for weights of fewer bits than these, as the run's devices have them."""
    try:
        device = parse_target(run.devices.rpartition(" + ")[2]).device
    except GpuscopeError:  # read from a file, and in no catalogue here
        return []
    kept = KINDS[str(run.settings.get("dtype", "bfloat16"))]
    known = {each.name for each in kinds_on(device) if each.weight_bytes < kept.weight_bytes}
    return [Text("--dtype {name}", name=name) for name in NARROW if name in known][:1]


def _number(settings: Mapping[str, float | str], name: str) -> float:
    return float(settings.get(name, 0.0))


def _limits(run: Serving, rows: Iterations) -> Iterator[tuple[float, Finding]]:
    """Limits that somebody waits for."""
    lasts = rows.device_s + rows.host_s
    whole, waits = float(lasts.sum()), rows.waiting > 0
    most = _number(run.settings, "max_tokens")
    seats = _number(run.settings, "max_sequences") / max(1.0, _number(run.settings, "pp"))

    def share(reached: np.ndarray) -> float:
        return float(lasts[reached & waits].sum()) / whole if whole > 0 else 0.0

    room = share(rows.kv_blocks_used >= FULL * (run.kv_blocks or np.inf))
    yield room, Finding(
        "kv_bound",
        Text("Requests wait for room for keys and values."),
        Text("{share} of the time it is full while some wait; {count} were put off.",
             share=Percent(room), count=Number(int(rows.preemptions.sum()), ",")),
        None,
        joined([Text("--kv-dtype fp8"), *narrower(run), Text("more devices")], ", or "),
    )  # fmt: skip
    full = share(rows.decode_sequences >= FULL * seats)
    yield (
        full,
        Finding(
            "sequence_bound",
            Text("Requests wait for one of {seats} places.", seats=Number(int(seats), ",")),
            Text("{share} of the time all are taken while some wait.", share=Percent(full)),
            None,
            Text("a larger --max-sequences, or more replicas"),
        ),
    )
    budget = share(rows.prefill_tokens + rows.decode_sequences >= FULL * most)
    yield (
        budget,
        Finding(
            "token_bound",
            Text(
                "Prompts wait for the {tokens} tokens of an iteration.",
                tokens=Number(int(most), ","),
            ),
            Text("{share} of the time they are used up while some wait.", share=Percent(budget)),
            None,
            Text(
                "a larger --max-tokens (answers then wait longer behind prompts), or more devices"
            ),
        ),
    )


def _device(run: Serving, rows: Iterations) -> Iterator[tuple[float, Finding]]:
    """What sets the pace of an iteration."""
    lasts = rows.device_s + rows.host_s
    slow = rows.host_s > rows.device_s
    host = float(lasts[slow].sum()) / float(lasts.sum()) if lasts.sum() > 0 else 0.0
    yield host, Finding(
        "host_bound",
        Text("The host sets the pace."),
        Text("{share} of the time its work on an iteration takes longer than the device's.",
             share=Percent(host)),
        None,
        Text("fewer devices a replica, CUDA graphs, or more sequences at a time"),
    )  # fmt: skip
    weights = _number(run.settings, "weights_share")
    yield (weights if weights >= 0.5 else 0.0), Finding(
        "bandwidth_bound",
        Text("Most of the device's time goes to reading the weights."),
        Text("{share} of it, once for each iteration however many sequences share it.",
             share=Percent(weights)),
        None,
        joined([Text("more sequences at a time"), *narrower(run), Text("--speculate")], ", or "),
    )  # fmt: skip
    links = _number(run.settings, "link_share")
    yield (
        links,
        Finding(
            "communication_bound",
            Text("Devices sum over their links."),
            Text("{share} of the device's time.", share=Percent(links)),
            None,
            Text("a smaller --tp, and more replicas"),
        ),
    )
