"""Synchronisations cost the host its lead over the device."""

from __future__ import annotations

from gpuscope.analysis.findings.culprits import named
from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.types import Finding
from gpuscope.document.quantities import Percent, Seconds
from gpuscope.document.text import Text, joined

LEAST_SHARE = 0.05
"""Idle after synchronisations below this share of the step is not worth a sentence."""

LEAST_GAIN = 0.01
"""Nor is a gain below this share of the step."""


_HINT = Text(
    "Keep results on the device: avoid .item(), .cpu(), print of tensors, boolean masks and "
    "nonzero inside the step; log every few steps; copy with non_blocking=True from pinned memory."
)

OFTEN = 3
"""From so many waits on they cut the step to pieces; one at its end (the loss, say) does not."""

LAUNCHES_BETWEEN = 10
"""Launches from one wait to the next below which the host never gets ahead of the device."""

FIRST_SHARE = 0.10
"""Waits that cost this share of the step are where to begin, whatever else the host is slow at."""


@finding("sync_bound", needs="host", order=110)
def sync_bound(facts: Facts) -> Finding | None:
    """Applies when the device idles after synchronisations for a twentieth of the step or more.

    Gain: without waits the step still takes as long as the slower of host work and device work,
    and a recorded one saves no more than the host spent in them.
    Where that leaves next to nothing to gain, the waits are not what holds the step up.

    Where waits come layer after layer, the late launches between them are told here too: neither a
    graph nor a compiled step is possible before they are gone. The gain is that of the waits alone;
    what graphs or compilation then take away is `host_bound`'s, which comes after it.
    """
    idle_s = facts.idle("host synchronising")
    if facts.share(idle_s) < LEAST_SHARE:
        return None
    gain = without_waits_s(facts)
    if facts.share(gain) < LEAST_GAIN:
        return None
    if waits_come_first(facts):
        return _layer_after_layer(facts, gain)
    largest = named(facts, "host synchronising")
    listed = _listed(facts)
    share, idle = Percent(facts.share(idle_s)), Seconds(idle_s)
    return Finding(
        kind="sync_bound",
        title=Text(
            "The host waits for the device, and then the device for the host: {share} of the step "
            "is idle after synchronisations.",
            share=share,
        ),
        evidence=Text(
            "The device stood idle for {idle} after the host had waited for it{listed}.{largest}",
            idle=idle,
            listed=listed,
            largest=largest,
        ),
        max_gain_s=gain,
        about=facts.about(idle=("host synchronising",)),
        hint=_HINT,
    )


def without_waits_s(facts: Facts) -> float:
    """Return the seconds that a step loses to its waits: it stays the slower of host and device.

    In a recording no more than the host spent in them: Python between two operators is no wait.
    """
    slower = max(facts.busy_s, facts.host_work_s or 0.0)
    lost = max(0.0, min(facts.total_idle_s, facts.step_s - slower))
    if facts.trust is None or facts.host_wait_s is None:
        return lost
    return min(lost, facts.host_wait_s)


def waits_come_first(facts: Facts) -> bool:
    """Return whether waits cut the step to pieces, so that they must go before anything else."""
    waits = sum(count for _, count in facts.syncs)
    launches = len(facts.rows.work) / facts.rows.work.window.steps
    often = waits >= OFTEN and launches <= LAUNCHES_BETWEEN * waits
    return (
        often
        and facts.host_work_s is not None
        and facts.share(facts.idle("host synchronising")) >= LEAST_SHARE
        and facts.share(without_waits_s(facts)) >= FIRST_SHARE
    )


def _layer_after_layer(facts: Facts, waits_s: float) -> Finding:
    """The finding where the host waits again and again within a step."""
    count = sum(number for _, number in facts.syncs)
    elsewhere = ("waiting for data", "waiting for another rank", "unknown")
    both = max(waits_s, facts.total_idle_s - sum(map(facts.idle, elsewhere)))
    largest = named(facts, "host synchronising")
    listed = _listed(facts)
    alone, share, rest = Seconds(waits_s), Percent(facts.share(waits_s)), Seconds(both - waits_s)
    every = max(1, round(len(facts.rows.work) / facts.rows.work.window.steps / count))
    return Finding(
        kind="sync_bound",
        title=Text(
            "The host waits for the device {count} times a step, so it never gets ahead of it.",
            count=count,
        ),
        evidence=Text(
            "It waits after every {every} launches{listed}, and each time the device then waits "
            "for the next launch. Without these waits the host would run ahead: up to {alone} "
            "({share}) less. Up to {rest} more is the launching itself, which graphs or "
            "compilation can take away only once nothing in the step waits.{largest}",
            every=every,
            listed=listed,
            alone=alone,
            share=share,
            rest=rest,
            largest=largest,
        ),
        max_gain_s=waits_s,
        about=facts.about(
            idle=[cause for cause in facts.idle_s if cause not in elsewhere], idle_s=waits_s
        ),
        hint=_HINT,
        before=("host_bound",),
    )


def _listed(facts: Facts) -> Text:
    """The synchronisations with how many a step has, in brackets."""
    names = joined(f"{name} ×{count}" for name, count in facts.syncs[:3])
    return Text(" ({names})", names=names) if names else Text("")
