"""The device waits for its input."""

from __future__ import annotations

from gpuscope.analysis.findings.culprits import named
from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.types import Finding
from gpuscope.document.quantities import Percent, Seconds
from gpuscope.document.text import Text

LEAST_SHARE = 0.05
"""Waits below this share of the step are not worth a sentence."""


@finding("input_bound", needs="host", order=20)
def input_bound(facts: Facts) -> Finding | None:
    """Applies when the device idles for input during a twentieth of the step or more.

    Gain: all of that idle time, as if every batch were there in time.
    """
    wait = facts.idle("waiting for data")
    if facts.share(wait) < LEAST_SHARE:
        return None
    share = Percent(facts.share(wait))
    largest = named(facts, "waiting for data")
    return Finding(
        kind="input_bound",
        title=Text("The device waits for input data {share} of the step.", share=share),
        evidence=Text(
            "It stood idle for {wait} of {step} while the host prepared the next batch.{largest}",
            wait=Seconds(wait),
            step=Seconds(facts.step_s),
            largest=largest,
        ),
        max_gain_s=wait,
        about=facts.about(idle=("waiting for data",)),
        hint=Text(
            "More DataLoader workers (num_workers, persistent_workers, prefetch_factor), "
            "pin_memory=True, and heavy transforms done ahead or on the device."
        ),
    )
