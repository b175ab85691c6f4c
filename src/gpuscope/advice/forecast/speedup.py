"""How sure a predicted speedup is: narrower than its two step times, for they share their errors.

A step before and after a change runs mostly the same kernels under the same host. What is wrong
with a kernel that both run is wrong in both, and cancels as far as it is an equal share of both
steps. With T0 and T the step before and after, the logarithm of the speedup is ln T0 - ln T, and an
error e_k of kernel k (relative) moves it by c_k e_k,

    c_k = s0 (n0_k d0_k / D0) - s (n_k d_k / D),

where n is how often the kernel runs, d its time, D the device time of the step, and s = dlnT/dlnD
how much the step follows its device (1 where the device sets the pace, 0 where the host does; found
by walking the step with a slower and a faster device). A kernel of both steps has one c_k from
both; one that only one of them runs carries its whole error. Then, as for a step by itself
(`gpuscope.timeline.uncertainty`): kernels err independently, those of one kind and dtype also share
an error, of `device_spread` or what recorded steps say of the kind (`cost.kind_spread`), all share
`common_spread`; collectives do so for themselves, with s of the links.

Kinds err otherwise forwards than backwards, and from one operator to the next: by such groups
`device_spread` was found. Where a change trades one for the other (recomputes the forward pass,
takes another attention) their shares of a kind cancel, but their errors do not. How much of its
error a kind shares is not recorded, so the larger is taken of both,

    e^2 = sum over kinds g of spread_g^2 max( (sum_k c_k)^2, sum over operators o (sum_k c_k)^2 ).

The host is the same machine in both: how fast it is, which is not known, is found by walking both
steps with the same slower and the same faster host. What the operators cost on it errs besides: for
that, operators are to the host what kernels are to the device, each with `OPERATOR_ERROR`, so that
it counts only for those that are another share of the two steps. The sources are independent of
each other: widths are summed in quadrature.

A kernel is the same in both if name, kind, dtype, work, grid and tile are; its time may differ,
since a board at its power limit clocks down by what the whole step does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, hypot, log, sqrt
from typing import Literal

import numpy as np

from gpuscope.cost.kind_spread import spread_of
from gpuscope.cost.types import CostedProgram, Kernel
from gpuscope.hardware import Calibration, Cluster
from gpuscope.program.types import Op, Program
from gpuscope.program.world import RankPrograms
from gpuscope.timeline.contention import DeviceOverlap
from gpuscope.timeline.pipeline_anew import ranks_anew
from gpuscope.timeline.rank_walk import Job, build_job, walk_job
from gpuscope.timeline.schedule import graphs_of
from gpuscope.timeline.simulate_ranks import contended_walks, job_period_s
from gpuscope.timeline.walk import Pace

__all__ = ["Costs", "costs_of", "speedup_interval"]

STEPS = 3
_NUDGE = 1.1
"""Factor on device and links by which it is found how much the step follows them."""

OPERATOR_ERROR = 0.25
"""Relative 80 % half-width of an operator's host time on a host whose speed is known: 80 % of the
host-bound steps of `validation/results/h200.json` whose own host was benched are within it."""

REPEAT = 0.01
"""Relative 80 % half-width of the quotient of two measurements of the same step: of all pairs of
looks at an unchanged script four in five differ by no more than 0.04 to 1.6 % in seven of the eight
naive scripts that were looked at several times on an H200 (14 % in DLRM's 9 ms, which the host
paces), by 1.5 % of all together (`benchmarks/results/ladders/singles.jsonl`, rows without a
change, the fastest block of each)."""

Source = Literal["device", "link", "host"]
KernelKey = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _Share:
    """One kernel's part of a step: its share of its source's time, and its relative errors.

    `group` is its kind and dtype, `call` the operator and the phase that launch it.
    """

    share: float
    below: float
    above: float
    group: tuple[str, str]
    call: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Costs:
    """What the interval of a speedup needs of one of the two steps.

    Attributes:
        step_s: its period.
        host_low_s, host_high_s: with the faster and the slower host.
        follows: dlnT / dln(time) of "device", "link" and "host".
        shares: of each source, kernels (operators) with their shares.
        spread, common: as `CostedProgram` has them.
    """

    step_s: float
    host_low_s: float
    host_high_s: float
    follows: Mapping[Source, float]
    shares: Mapping[Source, Mapping[KernelKey, _Share]]
    spread: float = 0.0
    common: float = 0.0


def costs_of(captured: Program | RankPrograms, cluster: Cluster, constants: Calibration) -> Costs:
    """Cost a step and walk it with other hosts, devices and links.

    Args:
        captured: one program or a job's ranks, as captured.
        cluster, constants: as `gpuscope.prediction` takes them.

    Raises:
        UnsupportedError: the device lacks a dtype that the program computes in.
        HangError: ranks would wait for each other for ever.
    """
    if isinstance(captured, Program):
        captured = RankPrograms((captured,), (tuple(range(captured.world_size)),))
    made = ranks_anew(captured, cluster.device, constants, cluster)
    job = build_job([each.costed for each in made], captured.members)
    walks, paces = contended_walks(job, STEPS, (), DeviceOverlap.of(cluster.device, constants))
    step_s = job_period_s(walks)
    walker = _Walker(job, tuple(paces), step_s)
    first = job.costed[0]
    faster = first.host_spread if first.host_faster is None else first.host_faster
    links = any(schedule.links for schedule in job.schedules)
    sources: tuple[Source, ...] = ("device", "host", "link") if links else ("device", "host")
    return Costs(
        step_s,
        walker.host(max(0.05, 1 - faster)),
        walker.host(1 + first.host_spread),
        {source: walker.follows(source) for source in sources},
        {
            source: _host_shares(first) if source == "host" else _shares(first, source)
            for source in sources
        },
        first.device_spread,
        first.common_spread,
    )


def speedup_interval(before: Costs, after: Costs, work: float = 1.0) -> tuple[float, float, float]:
    """The speedup with the 80 % interval of what is measured of it: (speedup, low, high).

    Args:
        before, after: of the two steps.
        work: work of a step after over that of a step before.
    """
    point = log(before.step_s / after.step_s * work)
    moved = [
        log(before.host_low_s / after.host_low_s * work) - point,
        log(before.host_high_s / after.host_high_s * work) - point,
    ]
    down, up = [REPEAT, max(0.0, -min(moved))], [REPEAT, max(0.0, max(moved))]
    sources: tuple[Source, ...] = ("device", "link", "host")
    for source in sources:
        errors = _errors(before, after, source)
        down.append(errors[0])
        up.append(errors[1])
    return exp(point), exp(point - hypot(*down)), exp(point + hypot(*up))


def _errors(before: Costs, after: Costs, source: Source) -> tuple[float, float]:
    """How far kernels' errors move the logarithm of the speedup down and up."""
    own: list[tuple[float, float]] = []
    groups: dict[tuple[str, str], dict[tuple[str, ...], float]] = defaultdict(
        lambda: defaultdict(float)
    )
    total = 0.0
    first, second = before.shares.get(source, {}), after.shares.get(source, {})
    for key in {**first, **second}:
        c = _weight(before, first.get(key), source) - _weight(after, second.get(key), source)
        known = first.get(key) or second[key]
        # A slower kernel makes the speedup larger where c is positive, smaller where not.
        slower, faster = abs(c) * known.above, abs(c) * known.below
        own.append((faster, slower) if c > 0 else (slower, faster))
        if source != "host":
            groups[known.group][known.call] += c
            total += c
    spread = max(before.spread, after.spread)
    common = (max(before.common, after.common) * total) ** 2
    down2, up2 = common, common
    for (kind, _), calls in groups.items():
        c = sum(calls.values())
        weight2 = max(c**2, sum(of_call**2 for of_call in calls.values()))
        down2 += spread_of(kind, spread, upwards=c < 0) ** 2 * weight2
        up2 += spread_of(kind, spread, upwards=c >= 0) ** 2 * weight2
    return (
        sqrt(sum(low**2 for low, _ in own) + down2),
        sqrt(sum(high**2 for _, high in own) + up2),
    )


def _weight(costs: Costs, share: _Share | None, source: Source) -> float:
    return 0.0 if share is None else costs.follows.get(source, 0.0) * share.share


@dataclass(frozen=True, slots=True)
class _Walker:
    """A job walked at other paces."""

    job: Job
    paces: tuple[Pace, ...]
    step_s: float

    def host(self, factor: float) -> float:
        """The period with a host that takes so many times as long."""
        return self._period([replace(p, host=p.host * factor) for p in self.paces])

    def follows(self, source: Source) -> float:
        """dlnT / dln(time of a source), from a tenth more and a tenth less."""
        ends = [self._scaled(source, factor) for factor in (1 / _NUDGE, _NUDGE)]
        slope = log(ends[1] / ends[0]) / (2 * log(_NUDGE))
        return min(1.0, max(0.0, slope))

    def _scaled(self, source: Source, factor: float) -> float:
        if source == "host":
            return self.host(factor)
        if source == "device":
            return self._period([replace(p, device=p.device * factor) for p in self.paces])
        slower = []
        for pace, schedule in zip(self.paces, self.job.schedules, strict=True):
            talks = np.isin(np.array(schedule.queue, np.int64), list(schedule.links))
            times = schedule.duration_s if pace.duration_s is None else pace.duration_s
            slower.append(replace(pace, duration_s=np.where(talks, times * factor, times)))
        return self._period(slower)

    def _period(self, paces: Sequence[Pace]) -> float:
        return job_period_s(walk_job(self.job, STEPS, paces))


@dataclass(slots=True)
class _Sum:
    """A kernel's launches, added up."""

    kernel: Kernel
    call: tuple[str, ...]
    time_s: float = 0.0
    below_s: float = 0.0
    above_s: float = 0.0


def _shares(costed: CostedProgram, source: Source) -> dict[KernelKey, _Share]:
    """Each kernel's share of the time of its source."""
    sums: dict[KernelKey, _Sum] = {}
    keys: dict[int, KernelKey] = {}
    for item in costed.ops:
        for kernel in item.kernels:
            if (kernel.lane == "link") != (source == "link"):
                continue
            key = keys.get(id(kernel)) or keys.setdefault(id(kernel), _key(kernel))
            entry = sums.get(key) or sums.setdefault(key, _Sum(kernel, _call(item.op, kernel)))
            entry.time_s += kernel.duration_s * item.op.repeat
            entry.below_s += max(0.0, kernel.duration_s - kernel.low_s) * item.op.repeat
            entry.above_s += max(0.0, kernel.high_s - kernel.duration_s) * item.op.repeat
    total_s = sum(entry.time_s for entry in sums.values())
    return {
        key: _Share(
            entry.time_s / total_s,
            entry.below_s / entry.time_s,
            entry.above_s / entry.time_s,
            (entry.kernel.kind, entry.kernel.dtype),
            entry.call,
        )
        for key, entry in sums.items()
        if entry.time_s > 0
    }


def _host_shares(costed: CostedProgram) -> dict[KernelKey, _Share]:
    """Each operator's share of the host's time, by name; the replay of a graph counts as one."""
    sums: dict[str, float] = defaultdict(float)
    graph_of = graphs_of(costed)
    for item in costed.ops:
        if graph_of(item.op) is not None:
            continue
        sums[item.op.name] += item.host_s * item.op.repeat
    if costed.graph:
        sums["graphs"] = sum(costed.graph_call_s.values())
    total_s = sum(sums.values())
    return {
        (name,): _Share(time_s / total_s, OPERATOR_ERROR, OPERATOR_ERROR, (name, ""))
        for name, time_s in sums.items()
        if time_s > 0
    }


def _call(op: Op, kernel: Kernel) -> tuple[str, ...]:
    """What a kernel shares its operator's error with: the same operator, phase and library.

    Pinned and pageable copies are two, and so are the attention kernels of two libraries.
    """
    library = {"transfer": kernel.name, "attention": kernel.name.partition("_")[0]}
    return op.name, op.phase, library.get(kernel.kind, "")


def _key(kernel: Kernel) -> KernelKey:
    return (
        kernel.name,
        kernel.kind,
        kernel.dtype,
        kernel.flops,
        kernel.least_bytes,
        kernel.grid,
        kernel.tile,
        kernel.lane,
        kernel.sent_bytes,
    )
