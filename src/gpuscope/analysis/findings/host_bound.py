"""The host launches work too slowly to keep the device busy."""

from __future__ import annotations

import numpy as np

from gpuscope.analysis.findings.culprits import garbage_s, memory_calls_s, named, spots_of
from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.findings.sync_bound import waits_come_first, without_waits_s
from gpuscope.analysis.types import Finding
from gpuscope.document.quantities import Percent, Seconds
from gpuscope.document.text import Text

LEAST_SHARE = 0.10
"""Idle behind the host's dispatch below this share of the step is normal start-up and rounding."""

LEAST_PART = 0.25
"""Part of the late time that memory calls or garbage collection take before they are the hint."""


@finding("host_bound", needs="host", order=10)
def host_bound(facts: Facts) -> Finding | None:
    """Applies when late launches leave the device idle for a tenth of the step or more.

    Gain: a host that is never late leaves the step at its device time, so no more than all idle
    time but the waits for data, which another finding covers, for other ranks, and for what is
    not recorded. Where waits come first (see `sync_bound`), only what they leave.

    Not of a rank that holds up the others by its host: `wait_for_rank` tells that of all ranks.
    """
    late = facts.idle("host dispatching")
    others = [time for cause, time in facts.idle_s.items() if cause != "host dispatching"]
    if facts.share(late) < LEAST_SHARE or late < max(others, default=0.0):
        return None
    if _told_of_all_ranks(facts):
        return None
    if facts.on_host:
        return _between_operators(facts, late)
    elsewhere = ("waiting for data", "waiting for another rank", "unknown")
    gain = facts.step_s - facts.busy_s - sum(map(facts.idle, elsewhere))
    duration = facts.rows.work.end_ns - facts.rows.work.start_ns
    count = facts.count_of(np.ones(len(duration), bool))
    median = Seconds(float(np.median(duration)) * 1e-9) if len(duration) else "-"
    busy, step, idle = Seconds(facts.busy_s), Seconds(facts.step_s), Seconds(late)
    share = Percent(facts.share(late))
    largest = named(facts, "host dispatching")
    hint = _hint(facts, late)
    waiting = _waiting(facts)
    pace = Text("The host delays the device")
    if gain >= facts.busy_s:
        pace = Text("The host sets the pace")
    if waits_come_first(facts):
        gain = max(0.0, gain - without_waits_s(facts))
        pace = Text("Once the waits are gone the host is still slow")
    return Finding(
        kind="host_bound",
        title=Text(
            "{pace}: the device waits for launches {share} of the step.", pace=pace, share=share
        ),
        evidence=Text(
            "The device works {busy} of the {step} step{waiting}; for {idle} its next kernel had "
            "not been launched yet. A step has {count} device launches, half of them under "
            "{median}.{largest}",
            busy=busy,
            step=step,
            waiting=waiting,
            idle=idle,
            count=count,
            median=median,
            largest=largest,
        ),
        max_gain_s=max(0.0, gain),
        hint=hint,
        about=facts.about(idle=[cause for cause in facts.idle_s if cause not in elsewhere]),
    )


def _between_operators(facts: Facts, late_s: float) -> Finding:
    """A run on the host's own processor: what is not in operators is Python and the framework."""
    share, late = Percent(facts.share(late_s)), Seconds(late_s)
    count = facts.count_of(np.ones(len(facts.rows.work), bool))
    largest = named(facts, "host dispatching")
    step, busy = Seconds(facts.step_s), Seconds(facts.busy_s)
    return Finding(
        kind="host_bound",
        title=Text(
            "Python and the framework take {share} of the step: the processor is between "
            "operators.",
            share=share,
        ),
        evidence=Text(
            "The operators work {busy} of the {step} step, {count} pieces of work a step; {late} "
            "lie between them.{largest}",
            busy=busy,
            step=step,
            count=count,
            late=late,
            largest=largest,
        ),
        max_gain_s=late_s,
        about=facts.about(idle=("host dispatching",)),
        hint=Text(
            "Fewer and larger operators: torch.compile, a fused or foreach optimizer, a larger "
            "batch; less Python inside the step."
        ),
    )


def _waiting(facts: Facts) -> Text:
    """How much of the device's work is waiting in collectives, where that is worth saying."""
    shares = facts.ranks.ranks if facts.ranks is not None else ()
    own = next((share for share in shares if share.rank == facts.rank), None)
    both = own.exposed_transfer_s + own.exposed_waiting_s if own is not None else 0.0
    if own is None or both <= 0:
        return Text("")
    time_s = facts.time_of(facts.of_class("communication")) * own.exposed_waiting_s / both
    if time_s < LEAST_SHARE * facts.busy_s:
        return Text("")
    waits = Seconds(time_s)
    return Text(", {waits} of that waiting for other ranks in collectives", waits=waits)


def _told_of_all_ranks(facts: Facts) -> bool:
    straggler = facts.ranks.straggler if facts.ranks is not None else None
    return (
        straggler is not None
        and straggler.rank == facts.rank
        and straggler.reason == "host dispatching"
    )


def _hint(facts: Facts, late_s: float) -> Text:
    """What to try first, by what the host is busy with."""
    spots = spots_of(facts, "host dispatching")
    if memory_calls_s(spots) >= LEAST_PART * late_s:
        return Text(
            "Stop getting and freeing device memory in the step: keep the caching allocator on "
            "(PYTORCH_NO_CUDA_MEMORY_CACHING unset), no torch.cuda.empty_cache() in the loop; "
            "where memory is short, expandable_segments:True or a smaller batch."
        )
    if garbage_s(spots) >= LEAST_PART * late_s:
        return Text(
            "Take Python's garbage collector out of the step: gc.freeze() after start-up, "
            "gc.disable() in the loop and gc.collect() every few hundred steps."
        )
    return Text(
        "Launch less: torch.compile(mode='reduce-overhead') or CUDA graphs, a fused optimizer, or "
        "more work per launch (a larger batch)."
    )
