"""`explain memory`: what a step holds, when, why, how much more would fit, and what to change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpuscope.api import Target
from gpuscope.document.blocks import (
    Block,
    Column,
    Explanation,
    Fact,
    Facts,
    Paragraph,
    Section,
    Table,
)
from gpuscope.document.quantities import Bytes, Number, Percent, Seconds
from gpuscope.document.text import Text, joined
from gpuscope.explanation.memory_case import Build, MemoryCase, make_case
from gpuscope.explanation.memory_changes import Change, changes
from gpuscope.explanation.memory_figures import (
    CATEGORIES,
    FIELDS,
    at_peak,
    change_bars,
    change_table,
    formulas,
    holders,
    on_devices,
    over_sizes,
    over_the_step,
)
from gpuscope.explanation.memory_fit import Limit, largest
from gpuscope.explanation.registry import topic
from gpuscope.program.types import Program

if TYPE_CHECKING:
    from gpuscope.program.workload import WorkloadOptions

_SOURCES = (
    "PyTorch, c10/cuda/CUDACachingAllocator.cpp: rounding, blocks and segments.",
    "Rajbhandari et al., ZeRO, 2020, section 3: bytes of parameters, gradients and states.",
    "Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016: recomputing activations.",
)


@topic("memory")
def memory(
    workload: Build | str | Program,
    *,
    on: Target = "h200",
    options: WorkloadOptions | None = None,
    **given: object,
) -> Explanation:
    """Explain the memory of a workload's step.

    Args:
        workload: as `gpuscope.predict` takes it.
        on: a device; of a cluster, each device holds this.
        options: of a workload given by name.
        given: the same one by one (`task="train"`, `batch=8`, ...).

    Raises:
        UnknownNameError: no such model, device or option.
        WorkloadError: the workload's own code failed.
        InvalidValueError: options that cannot be, or a step without device memory.
    """
    case = make_case(workload, on, _options(options, given))
    limits = [largest(case, field) for field in case.sizes]
    found = changes(case) if case.can_change else ()
    return Explanation(
        "memory",
        _title(case),
        _summary(case, limits, found),
        (
            Section(Text("At the peak"), (at_peak(case), _facts(case), holders(case))),
            Section(Text("Over the step"), (over_the_step(case),)),
            Section(Text("Where it comes from"), (formulas(case),)),
            _room(case, limits),
            _advice(case, found),
        ),
        _commands(case),
        _SOURCES,
        _assumptions(case),
    )


def _options(options: WorkloadOptions | None, given: dict[str, object]) -> WorkloadOptions:
    from dataclasses import fields, replace

    from gpuscope.errors import UnknownNameError
    from gpuscope.program.workload import WorkloadOptions

    known = [field.name for field in fields(WorkloadOptions)]
    for name in given:
        if name not in known:
            hint = Text("Type: gpuscope explain memory --help")
            raise UnknownNameError(Text("option"), name, known, hint)
    return replace(options or WorkloadOptions(), **given)  # type: ignore[arg-type]


def _title(case: MemoryCase) -> Text:
    return Text("Memory of {title} on {device}", title=case.title, device=case.device.name)


def _summary(
    case: MemoryCase, limits: Sequence[Limit], found: Sequence[Change]
) -> tuple[Text, ...]:
    said = [_whether(case), _mostly(case)]
    for limit in limits[:1]:
        said.append(_largest(limit))
    if found and found[0].peak_bytes < case.peak_bytes:
        best = next((c for c in found if c.same_result and c.option.startswith("--c")), found[0])
        saved = Percent(1 - best.peak_bytes / case.peak_bytes)
        time = Percent(abs(best.time_s / case.run.step_time_s - 1))
        longer = best.time_s > case.run.step_time_s
        said.append(
            Text(
                "Change first: {best} ({option}) saves {saved}; the same work takes {time} "
                "{value} time.",
                best=best.name,
                option=best.option,
                saved=saved,
                time=time,
                value=(Text("more") if longer else Text("less")),
            )
        )
    return tuple(said)


def _whether(case: MemoryCase) -> Text:
    peak, capacity = Bytes(case.peak_bytes), Bytes(case.capacity_bytes)
    if case.fits:
        share = Percent(case.peak_bytes / case.capacity_bytes)
        return Text(
            "The step holds {peak} at its peak: {share} of the {capacity} that a program can have.",
            peak=peak,
            share=share,
            capacity=capacity,
        )
    return Text(
        "The step does not fit: it needs {peak}, and a program can have {capacity}.",
        peak=peak,
        capacity=capacity,
    )


def _mostly(case: MemoryCase) -> Text:
    ordered = [(CATEGORIES[c][0], n) for c, n in case.trace.at_peak if n]
    (name, most), rest = ordered[0], ordered[1:3]
    share = Percent(most / case.peak_bytes)
    said = Text("Most of it is {name}: {most} ({share})", name=name, most=Bytes(most), share=share)
    then = [Text("{name} {amount}", name=name, amount=Bytes(n)) for name, n in rest]
    if not then:
        return Text("{said}.", said=said)
    return Text("{said}; then {rest}.", said=said, rest=joined(then, ", then "))


def _largest(limit: Limit) -> Text:
    name = FIELDS[limit.field]
    each = limit.bytes_each
    more = Text(" (each adds {bytes})", bytes=Bytes(each)) if each and each > 0 else ""
    if limit.most == 0:
        return Text("Not even a {name} of {points} fits.", name=name, points=limit.points[0].value)
    most = Number(limit.most, ",")
    if limit.exact:
        return Text(
            "The largest {name} that fits is {most}{more}.", name=name, most=most, more=more
        )
    if limit.next is not None:
        beyond = Number(limit.next, ",")
        return Text(
            "A {name} of {most} fits{more}, one of {beyond} does not.",
            name=name,
            most=most,
            more=more,
            beyond=beyond,
        )
    return Text(
        "A {name} of {most} still fits{more}; the search ended there.",
        name=name,
        most=most,
        more=more,
    )


def _facts(case: MemoryCase) -> Facts:
    trace = case.trace
    peak_s = case.run.analysis.memory.peak_time_s if case.run.analysis.memory else None
    when = Text("{peak} after the step began", peak=Seconds(peak_s)) if peak_s is not None else None
    rows = [
        Fact(Text("allocated by tensors"), float(case.peak_bytes), "bytes", "computed", note=when),
        Fact(
            Text("reserved by the allocator"),
            float(trace.peak_reserved_bytes),
            "bytes",
            "estimated",
            note=Text("segments with their holes, as nvidia-smi sees them (without the context)"),
        ),
        Fact(
            Text("a program can have"),
            float(case.capacity_bytes),
            "bytes",
            case.device.origin("memory_usable_bytes") or "",
        ),
        Fact(Text("parameters"), float(case.program.parameters), "count", "computed"),
    ]
    if case.program.first_step_extra_bytes:
        rows.append(
            Fact(
                Text("more in the very first step"),
                float(case.program.first_step_extra_bytes),
                "bytes",
                "computed",
            )
        )
    if trace.releases:
        rows.append(
            Fact(
                Text("cached segments given back"),
                float(trace.releases),
                "count",
                "computed",
                note=Text("the memory is nearly full, which costs time"),
            )
        )
    return Facts(tuple(rows))


def _room(case: MemoryCase, limits: Sequence[Limit]) -> Section:
    blocks: list[Block] = []
    if limits:
        rows = []
        for limit in limits:
            each = limit.bytes_each
            rows.append(
                (FIELDS[limit.field], limit.here, limit.most, limit.next, each, len(limit.points))
            )
        blocks.append(
            Table(
                Text("How much more fits"),
                (
                    Column(Text("what")),
                    Column(Text("now")),
                    Column(Text("largest that fits")),
                    Column(Text("does not fit")),
                    Column(Text("one more adds"), "bytes"),
                    Column(Text("steps captured"), "count"),
                ),
                tuple(rows),
            )
        )
        blocks += over_sizes(case, limits)
    else:
        blocks.append(
            Paragraph(
                Text("The sizes are fixed in the workload's own code, so none was searched."),
                "doubt",
            )
        )
    blocks.append(on_devices(case))
    return Section(Text("What would still fit"), tuple(blocks))


def _advice(case: MemoryCase, found: Sequence[Change]) -> Section:
    title = Text("What to change first")
    if not found:
        text = Text(
            "No option of this workload saves memory; in code of your own, try "
            "torch.utils.checkpoint, a narrower dtype, or fewer optimizer states."
        )
        return Section(title, (Paragraph(text),))
    return Section(title, (change_bars(case, found), change_table(case, found)))


def _commands(case: MemoryCase) -> tuple[str, ...]:
    name = case.workload if isinstance(case.workload, str) else "file.py:build"
    where = case.on if isinstance(case.on, str) else case.device.id
    task = f" --task {case.program.task}" if case.program.task and case.can_change else ""
    known = [f"gpuscope predict {name}{task} --on {where} --report report.html"]
    if case.can_change:
        known.append(f"gpuscope predict {name}{task} --on {where} --sweep batch=1..64")
    return tuple(known)


def _assumptions(case: MemoryCase) -> tuple[Text, ...]:
    return (
        Text(
            "The third step is shown: optimizer states exist, and segments are as real steps leave "
            "them."
        ),
        Text("Lengths beyond those that a model was made for are tried all the same."),
        Text("The CUDA context and libraries' own memory are outside of what a program can have."),
    )
