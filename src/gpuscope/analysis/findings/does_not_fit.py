"""The step needs more memory than the device has."""

from __future__ import annotations

from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.types import Finding, MemoryStory
from gpuscope.document.quantities import Bytes, Percent, Ratio
from gpuscope.document.text import Text, capital, joined
from gpuscope.program.types import HOLDERS


@finding("does_not_fit", needs="", order=100)
def does_not_fit(facts: Facts) -> Finding | None:
    """Applies when the peak is above the device's capacity.

    No gain is stated: a step that cannot run has no time to save.
    """
    memory = facts.memory
    if memory is None or memory.capacity_bytes is None:
        return None
    excess = memory.missing_bytes
    if excess <= 0:
        return None
    parts = sorted(memory.at_peak.items(), key=lambda item: -item[1])[:3]
    listed = joined(
        Text("{what} {size}", what=HOLDERS.get(name, name), size=Bytes(n)) for name, n in parts
    )
    fitting = [option for option in facts.fit if option.fits][:3]
    where = _first_failure(facts, memory)
    need, have = Bytes(memory.capacity_bytes + excess), Bytes(memory.capacity_bytes)
    share = excess / memory.capacity_bytes
    title = Text(
        "The step does not fit: it needs {need}, the device has {have}.", need=need, have=have
    )
    if facts.fullest is not None and facts.job is not None and len(facts.job.ranks) > 1:
        title = Text(
            "Rank {rank} does not fit: it needs {need}, the device has {have}.",
            rank=facts.fullest,
            need=need,
            have=have,
        )
    return Finding(
        kind="does_not_fit",
        title=title,
        evidence=Text(
            "{excess} ({share} of the device's memory) too much. Largest at the peak: "
            "{listed}.{where}",
            excess=Bytes(excess),
            share=Ratio(share) if share >= 1 else Percent(share),
            listed=listed,
            where=where,
        ),
        max_gain_s=None,
        hint=joined((capital(option.text) for option in fitting), " Or: ")
        or Text(
            "None of the usual changes is enough: use devices with more memory, or several (--on "
            "8x..., --fsdp full)."
        ),
    )


def _first_failure(facts: Facts, memory: MemoryStory) -> Text:
    """Where memory first runs out, empty where that is not known."""
    at, ops = memory.failed_op, facts.program.ops if facts.program else ()
    another_rank = facts.fullest is not None and facts.fullest != facts.rank
    if at is None or at >= len(ops) or another_rank:
        return Text("")
    asked = Bytes(memory.failed_bytes)
    if at < 0:
        return Text(
            " It runs out before the step, at {asked} for {failed_for}.",
            asked=asked,
            failed_for=memory.failed_for,
        )
    op = ops[at]
    module = Text(" in {module}", module=op.module) if op.module else Text("")
    return Text(
        " It runs out at operator {at} of {ops}, {op}{module}, which asks for {asked}.",
        at=at + 1,
        ops=len(ops),
        op=op.name,
        module=module,
        asked=asked,
    )
