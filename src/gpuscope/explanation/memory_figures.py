"""Figures of a step's memory: categories, curve, holders, formulas, fits, devices."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from gpuscope.document.blocks import (
    Axis,
    Bar,
    Bars,
    Cell,
    Column,
    Lines,
    Mark,
    Part,
    Role,
    Series,
    Table,
)
from gpuscope.document.quantities import Number, Percent
from gpuscope.document.text import Text, verbatim
from gpuscope.explanation.memory_case import MemoryCase
from gpuscope.explanation.memory_changes import Change
from gpuscope.explanation.memory_fit import Limit
from gpuscope.hardware import device as device_named
from gpuscope.program.types import DTYPE_BYTES, HOLDERS, Category, Storage
from gpuscope.timeline.memory import point_times_ns

_COLOURS: dict[Category, Role] = {
    "parameter": "tensor",
    "gradient": "compute",
    "optimizer_state": "shared",
    "activation": "memory",
    "temporary": "tail",
    "input": "copy",
    "buffer": "other",
    "cache": "l2",
    "workspace": "launch",
    "communication": "communication",
}

CATEGORIES = {name: (HOLDERS[name], colour) for name, colour in _COLOURS.items()}
"""Name and colour of each category."""

PHASES = {
    "forward": Text("the forward pass"),
    "backward": Text("the backward pass"),
    "optimizer": Text("the optimizer's step"),
    "input": Text("the input"),
}
"""Phases of a step."""

FIELDS = {"batch": Text("batch"), "seq": Text("sequence"), "context": Text("context")}

_NUMBER = re.compile(r"\.\d+(?=\.|$)")
_MOST_POINTS = 400
_MOST_HOLDERS = 12
_DEVICES = (
    "b300",
    "mi300x",
    "b200",
    "h200",
    "h100",
    "a100",
    "a100-sxm-40gb",
    "l40s",
    "rtx-5090",
    "rtx-4090",
    "t4",
)


def at_peak(case: MemoryCase) -> Bars:
    """Bytes by category at the peak, against what the device has."""
    parts = tuple(
        Part(CATEGORIES[category][0], float(nbytes), CATEGORIES[category][1])
        for category, nbytes in case.trace.at_peak
        if nbytes
    )
    return Bars(
        Text("At the peak"),
        "bytes",
        (Bar(Text("allocated"), parts),),
        limit=float(case.capacity_bytes),
        limit_label=Text("a program can have"),
    )


def over_the_step(case: MemoryCase) -> Lines:
    """Allocated and reserved memory over the step, with the largest categories."""
    trace = case.trace
    seconds = point_times_ns(case.run.timeline, trace) * 1e-9
    seconds = seconds - seconds[0]
    keep = _corners(trace.allocated_bytes, trace.peak_op + 1)
    x = tuple(float(v) for v in seconds[keep])

    def series(label: Text, values: np.ndarray, role: Role) -> Series:
        return Series(label, x, tuple(float(v) for v in values[keep]), "steps", role)

    curves = [
        series(Text("allocated"), trace.allocated_bytes, "reference"),
        *(
            series(CATEGORIES[category][0], values, CATEGORIES[category][1])
            for category, values in trace.by_category
            if values.max() > 0.03 * trace.peak_allocated_bytes
        ),
    ]
    peak_s = float(seconds[trace.peak_op + 1])
    marks = [Mark(Text("the peak"), peak_s, float(case.peak_bytes), "bad")]
    if case.capacity_bytes < 3 * case.peak_bytes:
        marks.append(Mark(Text("a program can have"), y=float(case.capacity_bytes)))
    return Lines(
        Text("Allocated memory and its largest parts"),
        Axis(Text("time of the host"), "s"),
        Axis(Text("memory"), "bytes"),
        tuple(curves),
        tuple(marks),
        _when(case),
    )


def _corners(values: np.ndarray, peak: int) -> np.ndarray:
    """Points to draw: evenly spread slices, the highest of each, both ends and the peak."""
    slices = np.array_split(np.arange(len(values)), min(_MOST_POINTS, len(values)))
    found = {int(part[values[part].argmax()]) for part in slices}
    return np.array(sorted(found | {0, len(values) - 1, peak}))


def _when(case: MemoryCase) -> Text:
    """In which phase and operator the peak is."""
    op = case.trace.peak_op
    if op < 0:
        return Text("The peak is there before the step begins.")
    found = case.program.ops[op]
    where = Text(" of {module}", module=found.module) if found.module else ""
    name = found.name.removeprefix("aten::")
    return Text(
        "The peak is in {phase}, at {name}{where}. Memory is allocated when the host issues an "
        "operator, ahead of the device; a long flat part is the host waiting for it.",
        phase=PHASES.get(found.phase) or verbatim(found.phase),
        name=name,
        where=where,
    )


def holders(case: MemoryCase) -> Table:
    """Who holds most at the peak; the layers of a stack together."""
    peak = case.trace.peak_op
    held: dict[tuple[str, str, Category], list[int]] = {}
    for storage in case.program.storages:
        if (
            storage.nbytes
            and storage.born <= peak
            and (storage.died is None or storage.died > peak)
        ):
            module = _NUMBER.sub(".*", storage.module)
            key = module, storage.label.removeprefix("aten::"), storage.category
            held.setdefault(key, []).append(storage.nbytes)
    largest = sorted(held.items(), key=lambda item: -sum(item[1]))[:_MOST_HOLDERS]
    shown = sum(sum(sizes) for _, sizes in largest)
    share = Percent(min(1.0, shown / case.peak_bytes))
    return Table(
        Text("Who holds it at the peak"),
        (
            Column(Text("module")),
            Column(Text("made by")),
            Column(Text("what")),
            Column(Text("tensors"), "count"),
            Column(Text("bytes"), "bytes"),
            Column(Text("of the peak"), "share"),
        ),
        tuple(
            (
                module,
                label,
                CATEGORIES[category][0],
                len(sizes),
                float(sum(sizes)),
                sum(sizes) / case.peak_bytes,
            )
            for (module, label, category), sizes in largest
        ),
        (),
        Text("Together {share} of the peak. A star stands for the layers of a stack.", share=share),
    )


def formulas(case: MemoryCase) -> Table:
    """What parameters times bytes says, against what the simulation holds."""
    rows: list[tuple[Cell, ...]] = []
    program = case.program
    kept = [s for s in program.storages if s.category == "parameter"]
    each = _parameter_bytes(case, kept)
    parameters = program.parameters
    if each is not None and parameters:
        text = f"{Number(parameters, ',')} x {each:g} B"
        rows.append(_row(case, "parameter", text, parameters * each))
        if any(s.category == "gradient" for s in program.storages):
            rows.append(_row(case, "gradient", text, parameters * each))
        states = _states(case, parameters)
        if states:
            names = ", ".join(states)
            text = f"{len(states)} ({names}) x {Number(parameters, ',')} x {each:g} B"
            rows.append(_row(case, "optimizer_state", text, len(states) * parameters * each))
    cache = _cache(case)
    if cache is not None:
        rows.append(_row(case, "cache", *cache))
    others: tuple[Category, ...] = ("activation", "temporary", "workspace", "communication")
    rows += [_row(case, category, None, None) for category in others if case.most(category)]
    return Table(
        Text("What the formula says, and what the step holds"),
        (
            Column(Text("what")),
            Column(Text("formula")),
            Column(Text("by formula"), "bytes"),
            Column(Text("most in the step"), "bytes"),
            Column(Text("at the peak"), "bytes"),
        ),
        tuple(rows),
        (),
        Text(
            "Activations and temporaries have no short formula: they follow from the operators "
            "that were captured. Sizes are rounded by the allocator."
        ),
    )


def _row(
    case: MemoryCase, category: Category, text: str | None, nbytes: float | None
) -> tuple[Cell, ...]:
    return (
        CATEGORIES[category][0],
        text if text is not None else "",
        nbytes,
        float(case.most(category)),
        float(case.at_peak(category)),
    )


def _parameter_bytes(case: MemoryCase, kept: Sequence[Storage]) -> float | None:
    """Bytes of a parameter's element: of the dtype that operators see most of them in."""
    sizes = {storage.id: storage.nbytes for storage in kept}
    found: Counter[str] = Counter()
    seen: set[int] = set()
    for op in case.program.ops:
        for spec in (*op.inputs, *op.outputs):
            if spec.storage in sizes and spec.storage not in seen:
                seen.add(spec.storage)
                found[spec.dtype] += sizes[spec.storage]
    return DTYPE_BYTES.get(found.most_common(1)[0][0]) if found else None


def _states(case: MemoryCase, parameters: int) -> list[str]:
    """States that the optimizer keeps for each parameter, by name; counters and rows left out."""
    held: Counter[str] = Counter()
    for storage in case.program.storages:
        if storage.category == "optimizer_state":
            held[storage.label] += storage.nbytes
    return [label for label, nbytes in held.items() if label and nbytes >= parameters]


def _cache(case: MemoryCase) -> tuple[str, float] | None:
    """Tensors of the key-value cache that are there before the step, by their shape."""
    kept = {
        s.id for s in case.program.storages if s.category == "cache" and s.born < 0 and s.nbytes
    }
    shapes: dict[int, tuple[tuple[int, ...], str]] = {}
    for op in case.program.ops:
        for spec in (*op.inputs, *op.outputs):
            if spec.storage in kept and len(spec.shape) >= len(shapes.get(spec.storage, ((),))[0]):
                known = shapes.get(spec.storage)
                if known is None or spec.numel > np.prod(known[0]):
                    shapes[spec.storage] = (spec.shape, spec.dtype)
    if not shapes:
        return None
    (shape, dtype), _ = Counter(shapes.values()).most_common(1)[0]
    item = DTYPE_BYTES[dtype]
    text = f"{len(kept)} x {' x '.join(map(str, shape))} x {item:g} B"
    return text, len(kept) * float(np.prod(shape)) * item


def over_sizes(case: MemoryCase, limits: Sequence[Limit]) -> list[Lines]:
    """The peak over batch and length, through the captured points."""
    found = []
    for limit in limits:
        name = FIELDS[limit.field]
        x = tuple(float(p.value) for p in limit.points)
        y = tuple(float(p.peak_bytes) for p in limit.points)
        if len(x) < 2:
            continue
        log = x[-1] > 16 * x[0]
        marks = [
            Mark(Text("this step"), float(limit.here), float(case.peak_bytes), "good"),
            Mark(Text("a program can have"), y=float(case.capacity_bytes)),
        ]
        if limit.most and limit.exact:
            marks.append(Mark(Text("the largest that fits"), x=float(limit.most)))
        found.append(
            Lines(
                Text("The peak over the {name}", name=name),
                Axis(name, "", log),
                Axis(Text("peak"), "bytes", log),
                (Series(Text("captured steps"), x, y, role="memory"),),
                tuple(marks),
            )
        )
    return found


def change_bars(case: MemoryCase, found: Sequence[Change]) -> Bars:
    """The peak after each change, in the same order as the table."""

    def bar(name: Text, nbytes: int, role: Role) -> Bar:
        return Bar(name, (Part(Text("peak"), float(nbytes), role),))

    now = bar(Text("as it is"), case.peak_bytes, "reference")
    return Bars(
        Text("The peak after each change"),
        "bytes",
        (now, *(bar(change.name, change.peak_bytes, "good") for change in found)),
    )


def change_table(case: MemoryCase, found: Sequence[Change]) -> Table:
    """Each change with its memory, its time, and whether the result stays."""
    return Table(
        Text("Each was captured and simulated"),
        (
            Column(Text("change")),
            Column(Text("how")),
            Column(Text("saves"), "bytes"),
            Column(Text("peak left"), "share"),
            Column(Text("time, same work"), "ratio"),
            Column(Text("same result")),
        ),
        tuple(
            (
                change.name,
                change.option,
                float(case.peak_bytes - change.peak_bytes),
                change.peak_bytes / case.peak_bytes,
                change.time_s / case.run.step_time_s,
                Text("yes") if change.same_result else Text("no"),
            )
            for change in found
        ),
    )


def on_devices(case: MemoryCase) -> Table:
    """Which devices hold this step."""
    rows = []
    marked = []
    seen = set()
    for known in (case.device, *(device_named(name) for name in _DEVICES)):
        if known.id in seen:
            continue
        seen.add(known.id)
        rows.append((known, case.fits_on(known)))
    rows.sort(key=lambda row: -row[0].memory_usable_bytes)
    marked = [n for n, (known, _) in enumerate(rows) if known.id == case.device.id]
    return Table(
        Text("Which devices hold this step"),
        (
            Column(Text("device")),
            Column(Text("a program can have"), "bytes"),
            Column(Text("used"), "share"),
            Column(Text("fits")),
        ),
        tuple(
            (
                known.name,
                float(known.memory_usable_bytes),
                case.peak_bytes / known.memory_usable_bytes,
                Text("yes") if fits else Text("no"),
            )
            for known, fits in rows
        ),
        tuple(marked),
    )
