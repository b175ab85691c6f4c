"""Figures of a step's memory: categories, curve, holders, formulas, fits, devices."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from gpuscope.explain.memory_case import Case
from gpuscope.explain.memory_changes import Change
from gpuscope.explain.memory_fit import Limit
from gpuscope.explain.numbers import count, percent
from gpuscope.explain.types import (
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
    Words,
)
from gpuscope.hardware import device as device_named
from gpuscope.program.types import DTYPE_BYTES, Category, Storage
from gpuscope.timeline.memory import point_times_ns

CATEGORIES: dict[Category, tuple[Words, Role]] = {
    "parameter": (Words("parameters", "参数"), "tensor"),
    "gradient": (Words("gradients", "梯度"), "compute"),
    "optimizer_state": (Words("optimizer states", "优化器状态"), "shared"),
    "activation": (Words("activations", "激活值"), "memory"),
    "temporary": (Words("temporaries", "临时张量"), "tail"),
    "input": (Words("inputs", "输入"), "copy"),
    "buffer": (Words("buffers", "缓冲区"), "other"),
    "cache": (Words("key-value cache", "KV 缓存"), "l2"),
    "workspace": (Words("library workspaces", "库工作区"), "launch"),
    "communication": (Words("communication buffers", "通信缓冲区"), "communication"),
}
"""Name and colour of each category."""

FIELDS = {
    "batch": Words("batch", "批量"), "seq": Words("sequence", "序列长度"),
    "context": Words("context", "上下文长度"),
}  # fmt: skip

_NUMBER = re.compile(r"\.\d+(?=\.|$)")
_MOST_POINTS = 400
_MOST_HOLDERS = 12
_DEVICES = (
    "b300", "mi300x", "b200", "h200", "h100", "a100", "a100-sxm-40gb", "l40s", "rtx-5090",
    "rtx-4090", "t4",
)  # fmt: skip


def at_peak(case: Case) -> Bars:
    """Bytes by category at the peak, against what the device has."""
    parts = tuple(
        Part(CATEGORIES[category][0], float(nbytes), CATEGORIES[category][1])
        for category, nbytes in case.trace.at_peak if nbytes
    )  # fmt: skip
    return Bars(
        Words("At the peak", "峰值时刻"), "bytes",
        (Bar(Words("allocated", "已分配"), parts),),
        limit=float(case.capacity_bytes), limit_label=Words("a program can have", "程序可用显存"),
    )  # fmt: skip


def over_the_step(case: Case) -> Lines:
    """Allocated and reserved memory over the step, with the largest categories."""
    trace = case.trace
    seconds = point_times_ns(case.run.timeline, trace) * 1e-9
    seconds = seconds - seconds[0]
    keep = _corners(trace.allocated_bytes, trace.peak_op + 1)
    x = tuple(float(v) for v in seconds[keep])

    def series(label: Words, values: np.ndarray, role: Role) -> Series:
        return Series(label, x, tuple(float(v) for v in values[keep]), "steps", role)

    curves = [
        series(Words("allocated", "已分配"), trace.allocated_bytes, "reference"),
        *(
            series(CATEGORIES[category][0], values, CATEGORIES[category][1])
            for category, values in trace.by_category
            if values.max() > 0.03 * trace.peak_allocated_bytes
        ),
    ]
    peak_s = float(seconds[trace.peak_op + 1])
    marks = [Mark(Words("the peak", "峰值"), peak_s, float(case.peak_bytes), "bad")]
    if case.capacity_bytes < 3 * case.peak_bytes:
        marks.append(
            Mark(Words("a program can have", "程序可用显存"), y=float(case.capacity_bytes))
        )
    return Lines(
        Words("Allocated memory and its largest parts", "已分配显存及其主要部分"),
        Axis(Words("time of the host", "主机时间"), "s"),
        Axis(Words("memory", "显存"), "bytes"), tuple(curves), tuple(marks), _when(case),
    )  # fmt: skip


def _corners(values: np.ndarray, peak: int) -> np.ndarray:
    """Points to draw: evenly spread slices, the highest of each, both ends and the peak."""
    slices = np.array_split(np.arange(len(values)), min(_MOST_POINTS, len(values)))
    found = {int(part[values[part].argmax()]) for part in slices}
    return np.array(sorted(found | {0, len(values) - 1, peak}))


def _when(case: Case) -> Words:
    """In which phase and operator the peak is."""
    op = case.trace.peak_op
    if op < 0:
        return Words("The peak is there before the step begins.", "峰值在这一步开始之前就已存在。")
    found = case.program.ops[op]
    phase = {
        "forward": "前向", "backward": "反向", "optimizer": "优化器更新", "input": "输入",
    }.get(found.phase, "其他")  # fmt: skip
    where = f" of {found.module}" if found.module else ""
    where_zh = f"（{found.module}）" if found.module else ""
    name = found.name.removeprefix("aten::")
    return Words(
        f"The peak is in {found.phase}, at {name}{where}. Memory is allocated when the host issues "
        "an operator, ahead of the device; a long flat part is the host waiting for it.",
        f"峰值出现在{phase}阶段，算子 {name}{where_zh}。显存在主机发出算子时分配，早于设备执行；"
        "较长的平坦段是主机在等待设备。",
    )


def holders(case: Case) -> Table:
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
    share = percent(min(1.0, shown / case.peak_bytes))
    return Table(
        Words("Who holds it at the peak", "峰值时由谁占用"),
        (
            Column(Words("module", "模块")), Column(Words("made by", "来源")),
            Column(Words("what", "类别")), Column(Words("tensors", "张量数"), "count"),
            Column(Words("bytes", "字节"), "bytes"),
            Column(Words("of the peak", "占峰值"), "share"),
        ),
        tuple(
            (module, label, CATEGORIES[category][0], len(sizes), float(sum(sizes)),
             sum(sizes) / case.peak_bytes)
            for (module, label, category), sizes in largest
        ),
        (),
        Words(f"Together {share} of the peak. A star stands for the layers of a stack.",
              f"合计占峰值的 {share}。星号代表堆叠的各层。"),
    )  # fmt: skip


def formulas(case: Case) -> Table:
    """What parameters times bytes says, against what the simulation holds."""
    rows: list[tuple[Cell, ...]] = []
    program = case.program
    kept = [s for s in program.storages if s.category == "parameter"]
    each = _parameter_bytes(case, kept)
    parameters = program.parameters
    if each is not None and parameters:
        text = f"{count(parameters)} x {each:g} B"
        rows.append(_row(case, "parameter", text, parameters * each))
        if any(s.category == "gradient" for s in program.storages):
            rows.append(_row(case, "gradient", text, parameters * each))
        states = _states(case, parameters)
        if states:
            names = ", ".join(states)
            text = f"{len(states)} ({names}) x {count(parameters)} x {each:g} B"
            rows.append(_row(case, "optimizer_state", text, len(states) * parameters * each))
    cache = _cache(case)
    if cache is not None:
        rows.append(_row(case, "cache", *cache))
    others: tuple[Category, ...] = ("activation", "temporary", "workspace", "communication")
    rows += [_row(case, category, None, None) for category in others if case.most(category)]
    return Table(
        Words("What the formula says, and what the step holds", "公式与模拟对照"),
        (
            Column(Words("what", "类别")), Column(Words("formula", "公式")),
            Column(Words("by formula", "公式值"), "bytes"),
            Column(Words("most in the step", "一步内最多"), "bytes"),
            Column(Words("at the peak", "峰值时"), "bytes"),
        ),
        tuple(rows), (),
        Words(
            "Activations and temporaries have no short formula: they follow from the operators "
            "that were captured. Sizes are rounded by the allocator.",
            "激活值和临时张量没有简单公式：由捕获到的算子得出。分配器会对大小取整。",
        ),
    )  # fmt: skip


def _row(
    case: Case, category: Category, text: str | None, nbytes: float | None
) -> tuple[Cell, ...]:
    return (
        CATEGORIES[category][0], text if text is not None else "", nbytes,
        float(case.most(category)), float(case.at_peak(category)),
    )  # fmt: skip


def _parameter_bytes(case: Case, kept: Sequence[Storage]) -> float | None:
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


def _states(case: Case, parameters: int) -> list[str]:
    """States that the optimizer keeps for each parameter, by name; counters and rows left out."""
    held: Counter[str] = Counter()
    for storage in case.program.storages:
        if storage.category == "optimizer_state":
            held[storage.label] += storage.nbytes
    return [label for label, nbytes in held.items() if label and nbytes >= parameters]


def _cache(case: Case) -> tuple[str, float] | None:
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


def over_sizes(case: Case, limits: Sequence[Limit]) -> list[Lines]:
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
            Mark(Words("this step", "当前"), float(limit.here), float(case.peak_bytes), "good"),
            Mark(Words("a program can have", "程序可用显存"), y=float(case.capacity_bytes)),
        ]
        if limit.most and limit.exact:
            marks.append(
                Mark(Words("the largest that fits", "放得下的最大值"), x=float(limit.most))
            )
        found.append(
            Lines(
                Words(f"The peak over the {name.en}", f"峰值随{name.zh}变化"), Axis(name, "", log),
                Axis(Words("peak", "峰值"), "bytes", log),
                (Series(Words("captured steps", "捕获的各步"), x, y, role="memory"),),
                tuple(marks),
            )
        )  # fmt: skip
    return found


def change_bars(case: Case, found: Sequence[Change]) -> Bars:
    """The peak after each change, in the same order as the table."""

    def bar(name: Words, nbytes: int, role: Role) -> Bar:
        return Bar(name, (Part(Words("peak", "峰值"), float(nbytes), role),))

    now = bar(Words("as it is", "现状"), case.peak_bytes, "reference")
    return Bars(
        Words("The peak after each change", "各项更改后的峰值"), "bytes",
        (now, *(bar(change.name, change.peak_bytes, "good") for change in found)),
    )  # fmt: skip


def change_table(case: Case, found: Sequence[Change]) -> Table:
    """Each change with its memory, its time, and whether the result stays."""
    return Table(
        Words("Each was captured and simulated", "每项都经捕获和模拟"),
        (
            Column(Words("change", "更改")), Column(Words("how", "写法")),
            Column(Words("saves", "节省"), "bytes"),
            Column(Words("peak left", "剩余峰值"), "share"),
            Column(Words("time, same work", "同样工作量的时间"), "ratio"),
            Column(Words("same result", "结果不变")),
        ),
        tuple(
            (
                change.name, change.option, float(case.peak_bytes - change.peak_bytes),
                change.peak_bytes / case.peak_bytes, change.time_s / case.run.step_time_s,
                Words("yes", "是") if change.same_result else Words("no", "否"),
            )
            for change in found
        ),
    )  # fmt: skip


def on_devices(case: Case) -> Table:
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
        Words("Which devices hold this step", "哪些设备放得下"),
        (
            Column(Words("device", "设备")),
            Column(Words("a program can have", "可用显存"), "bytes"),
            Column(Words("used", "占用"), "share"), Column(Words("fits", "放得下")),
        ),
        tuple(
            (known.name, float(known.memory_usable_bytes),
             case.peak_bytes / known.memory_usable_bytes,
             Words("yes", "是") if fits else Words("no", "否"))
            for known, fits in rows
        ),
        tuple(marked),
    )  # fmt: skip
