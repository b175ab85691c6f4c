"""Models packed onto slices, in words and tables."""

from __future__ import annotations

from typing import Any

from gpuscope.document.blocks import Cell, Column, Explanation, Section, Table
from gpuscope.document.quantities import Number, Percent
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.planning.sentences import bound_to, starts, tied
from gpuscope.planning.serving.sliced_types import SlicedPlan, Way

__all__ = ["explained_slices", "refuse_of_whole_devices"]

_TOGETHER = Text(
    "A model is not split over parts, and its requests are shared among them by what each can "
    "serve."
)
_SLICES = (
    _TOGETHER,
    Text(
        "Neighbours are taken to rest: at work they share the link to the host and the board's "
        "power. No slice was measured."
    ),
    Text(
        "A slice's share of a device is the larger of its sevenths of compute and its eighths of "
        "memory."
    ),
)
_SHARES = (
    _TOGETHER,
    Text(
        "Shares are equal, of arithmetic, bandwidth and memory, and neighbours are taken to be "
        "always at work: a share gets more while they rest."
    ),
    Text(
        "Errors are taken to be twice as wide as of a whole device, since neighbours evict from "
        "the L2 and switch. Nothing keeps a process from memory beyond its share."
    ),
)
_ASSUMPTIONS = {True: _SLICES, False: _SHARES}
"""Whether parts are slices."""


def refuse_of_whole_devices(why: str | None, changed: bool) -> None:
    """Refuse what belongs to a choice among whole devices.

    Raises:
        InvalidValueError: something of that.
    """
    if why is not None or changed:
        raise InvalidValueError(
            Text("--why, --prices and --device-set do not go with parts of devices."),
            Text("Parts are chosen by their share of a device."),
            Text("Leave them out."),
        )


def explained_slices(plan: SlicedPlan, framework: str | None = None) -> Explanation:
    """The plan for a reader.

    Args:
        plan: the answer.
        framework: "vllm" or "sglang": also what makes the slices and starts the models.

    Raises:
        UnknownNameError: no such framework.
    """
    demands = plan.question.demands
    taken = plan.taken
    sections = [
        Section(Text("What lies where"), (_placed(taken),)),
        Section(Text("All that were simulated"), (_ways(plan),)),
    ]
    if framework is not None:
        sections.append(starts(framework, plan.to(framework), "sh"))
    asked = ", ".join(f"{each.model} {each.rate_per_s:.3g}/s" for each in demands)
    return Explanation(
        "plan",
        Text(
            "{models} on parts of devices: {prompt} tokens in, {answer} out",
            models=asked,
            prompt=demands[0].prompt,
            answer=demands[0].answer,
        ),
        _summary(plan, taken),
        tuple(sections),
        (),
        (),
        (
            *_ASSUMPTIONS[plan.question.part == "slices"],
            *bound_to(taken.cluster, demands[0].clusters),
        ),
    )


def _summary(plan: SlicedPlan, taken: Way) -> tuple[Text, ...]:
    figures: dict[str, Any] = {
        "layout": taken.words,
        "devices": len(taken.devices),
        "device": taken.cluster.device.name,
        "share": Number(taken.share, ".2f"),
        "feasible": Percent(taken.feasible),
    }
    if plan.best is None:
        first = Text(
            "Nothing keeps every limit with enough certainty. The nearest is {layout} on {devices} "
            "x {device}: {feasible} likely.",
            **figures,
        )
    else:
        first = Text(
            "Take {layout} on {devices} x {device}: {share} of a device in all, {feasible} likely "
            "to keep every limit.",
            **figures,
        )
    lines = [first]
    if plan.alone is not None:
        lines.append(
            Text("On whole devices of their own they would take {count}.", count=plan.alone)
        )
    lines.append(Text("{count} ways keep up by the quick score.", count=plan.candidates))
    return (*lines, *tied((), plan.complete))


def _placed(way: Way) -> Table:
    columns = (
        Column(Text("slice")),
        Column(Text("model")),
        Column(Text("plan")),
        Column(Text("requests a second")),
        Column(Text("TTFT"), "s"),
        Column(Text("TPOT"), "s"),
        Column(Text("can serve"), "percent"),
        Column(Text("likely to do"), "percent"),
    )
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            each.profile,
            each.model,
            each.offered.choice.words,
            each.rate_per_s,
            each.offered.ttft_s,
            each.offered.tpot_s,
            each.offered.headroom,
            each.offered.feasible,
        )
        for each in way.placed
    )
    note = Text("Can serve: requests a second at most, of those that come.")
    return Table(Text("Each model on each of its slices"), columns, rows, note=note)


def _ways(plan: SlicedPlan) -> Table:
    columns = (
        Column(Text("devices, and their slices")),
        Column(Text("models")),
        Column(Text("share of a device"), "percent"),
        Column(Text("likely to do"), "percent"),
    )
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            each.words,
            ", ".join(f"{one.model} {one.profile}" for one in each.placed),
            each.share,
            each.feasible,
        )
        for each in plan.judged
    )
    chosen = tuple(n for n, each in enumerate(plan.judged) if each is plan.best)
    return Table(Text("The least share first"), columns, rows, chosen)
