"""What would make it fit: one change away from the plan that is least short of memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpuscope.errors import GpuscopeError
from gpuscope.hardware import Device, device_ids, parse_target
from gpuscope.hardware.cluster import build_cluster
from gpuscope.planning.simulate import probability_to_fit
from gpuscope.planning.tuning.score import estimate
from gpuscope.planning.tuning.simulate import Simulator
from gpuscope.planning.tuning.space import OF_METHOD
from gpuscope.planning.tuning.types import Shortfall, Tuned, TuningQuestion, Weighed
from gpuscope.program.models.tuning import METHODS

__all__ = ["would_fit"]

SHORTEST = 256
"""Tokens of a sequence below which none is proposed."""


def would_fit(
    question: TuningQuestion, simulator: Simulator, least: Weighed
) -> tuple[Shortfall, ...]:
    """One change each: fewer tokens, another method, more devices, another device.

    Of each sort of change the mildest that is likely to fit, and that one simulated; where none
    is, the strongest, by the quick score. The quick score is scaled by what it was off for the
    plan that is least short.

    Args:
        question: what was asked.
        simulator: of the question.
        least: the plan that is least short.
    """
    off = least.peak_bytes / least.scored_bytes
    found = []
    for sort in _sorts(question, least.candidate):
        last: Shortfall | None = None
        for each, seq in sort:
            peak = estimate(question.size, seq, each).peak_bytes * off
            usable = each.cluster.device.memory_usable_bytes
            last = Shortfall(each, seq, peak, probability_to_fit(peak, usable), False)
            if last.fits >= question.certainty:
                last = _simulated(simulator, last)
            if last.fits >= question.certainty:
                break
        if last is not None:
            found.append(last)
    return tuple(sorted(found, key=lambda each: each.fits < question.certainty))


def _simulated(simulator: Simulator, each: Shortfall) -> Shortfall:
    try:
        peak = simulator.peak_bytes(each.candidate, each.seq)
    except GpuscopeError:
        return replace(each, fits=0.0)
    usable = each.candidate.cluster.device.memory_usable_bytes
    fits = probability_to_fit(peak, usable)
    return replace(each, peak_bytes=peak, fits=fits, simulated=True)


def _sorts(question: TuningQuestion, least: Tuned) -> Iterator[list[tuple[Tuned, int]]]:
    """Each sort of change, the mildest first."""
    halved = (question.seq >> n for n in range(1, 16))
    yield [(least, seq) for seq in halved if seq >= SHORTEST]
    lighter = METHODS[METHODS.index(least.tuning.method) + 1 :]
    yield [
        (
            replace(least, tuning=replace(least.tuning, method=name, optimizer=optimizer)),
            question.seq,
        )
        for name in lighter
        for optimizer in OF_METHOD[name]
    ]
    more = (least.devices * 2**n for n in range(1, 7))
    yield [(_on(least, least.cluster.device, n), question.seq) for n in more]
    here = least.cluster.device
    larger = sorted(
        (parse_target(name).device for name in device_ids()),
        key=lambda device: device.memory_usable_bytes,
    )
    yield [
        (_on(least, device, least.devices), question.seq)
        for device in larger
        if device.memory_usable_bytes > here.memory_usable_bytes
        and device.vendor == here.vendor
        and _multiplies(device)
    ]


def _multiplies(device: Device) -> bool:
    """Whether its rate in bfloat16 is known."""
    try:
        return device.peak_flops_per_s("bfloat16") > 0
    except GpuscopeError:
        return False


def _on(least: Tuned, device: Device, count: int) -> Tuned:
    """The same on another cluster, its parameters shared by all."""
    cluster = build_cluster(device, count)
    tuning = replace(
        least.tuning,
        devices=cluster.n_devices,
        node=cluster.devices_per_node,
        sharding="full" if cluster.n_devices > 1 else "none",
    )
    return replace(least, cluster=cluster, tuning=tuning)
