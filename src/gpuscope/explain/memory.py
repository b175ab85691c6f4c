"""`explain memory`: what a step holds, when, why, how much more would fit, and what to change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpuscope.api import Target
from gpuscope.explain.memory_case import Build, Case, make_case
from gpuscope.explain.memory_changes import Change, changes
from gpuscope.explain.memory_figures import (
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
from gpuscope.explain.memory_fit import Limit, largest
from gpuscope.explain.numbers import count, percent, seconds, size
from gpuscope.explain.registry import topic
from gpuscope.explain.types import (
    Block,
    Column,
    Explanation,
    Fact,
    Facts,
    Paragraph,
    Section,
    Table,
    Words,
)
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
    workload: Build | str | Program, *, on: Target = "h200",
    options: WorkloadOptions | None = None, **given: object,
) -> Explanation:  # fmt: skip
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
        "memory", _title(case), _summary(case, limits, found),
        (
            Section(Words("At the peak", "峰值"), (at_peak(case), _facts(case), holders(case))),
            Section(Words("Over the step", "一步之内"), (over_the_step(case),)),
            Section(Words("Where it comes from", "从哪里来"), (formulas(case),)),
            _room(case, limits),
            _advice(case, found),
        ),
        _commands(case), _SOURCES, _assumptions(case),
    )  # fmt: skip


def _options(options: WorkloadOptions | None, given: dict[str, object]) -> WorkloadOptions:
    from dataclasses import fields, replace

    from gpuscope.errors import UnknownNameError
    from gpuscope.program.workload import WorkloadOptions

    known = [field.name for field in fields(WorkloadOptions)]
    for name in given:
        if name not in known:
            raise UnknownNameError("option", name, known, "Type: gpuscope explain memory --help")
    return replace(options or WorkloadOptions(), **given)  # type: ignore[arg-type]


def _title(case: Case) -> Words:
    return Words(
        f"Memory of {case.title} on {case.device.name}",
        f"{case.title} 在 {case.device.name} 上的显存",
    )


def _summary(case: Case, limits: Sequence[Limit], found: Sequence[Change]) -> tuple[Words, ...]:
    said = [_whether(case), _mostly(case)]
    for limit in limits[:1]:
        said.append(_largest(limit))
    if found and found[0].peak_bytes < case.peak_bytes:
        best = next((c for c in found if c.same_result and c.option.startswith("--c")), found[0])
        saved = percent(1 - best.peak_bytes / case.peak_bytes)
        time = percent(abs(best.time_s / case.run.step_time_s - 1))
        longer = best.time_s > case.run.step_time_s
        said.append(Words(
            f"Change first: {best.name.en} ({best.option}) saves {saved}; the same work takes "
            f"{time} {'more' if longer else 'less'} time.",
            f"先改：{best.name.zh}（{best.option}）可省 {saved}，"
            f"同样的工作{'多' if longer else '少'}用 {time} 的时间。",
        ))  # fmt: skip
    return tuple(said)


def _whether(case: Case) -> Words:
    peak, capacity = size(case.peak_bytes), size(case.capacity_bytes)
    if case.fits:
        share = percent(case.peak_bytes / case.capacity_bytes)
        return Words(
            f"The step holds {peak} at its peak: {share} of the {capacity} that a program can "
            "have.",
            f"这一步峰值占用 {peak}：为程序可用显存 {capacity} 的 {share}。",
        )
    return Words(
        f"The step does not fit: it needs {peak}, and a program can have {capacity}.",
        f"这一步放不下：需要 {peak}，而程序可用显存只有 {capacity}。",
    )


def _mostly(case: Case) -> Words:
    ordered = [(CATEGORIES[c][0], n) for c, n in case.trace.at_peak if n]
    first = ordered[0]
    rest = ordered[1:3]
    en = ", then ".join(f"{name.en} {size(n)}" for name, n in rest)
    zh = "，其次是".join(f"{name.zh} {size(n)}" for name, n in rest)
    return Words(
        f"Most of it is {first[0].en}: {size(first[1])} ({percent(first[1] / case.peak_bytes)})"
        + (f"; then {en}." if en else "."),
        f"其中最多的是{first[0].zh}：{size(first[1])}（{percent(first[1] / case.peak_bytes)}）"
        + (f"；其次是{zh}。" if zh else "。"),
    )


def _largest(limit: Limit) -> Words:
    name = FIELDS[limit.field]
    each = limit.bytes_each
    more = f" (each adds {size(each)})" if each and each > 0 else ""
    more_zh = f"（每增加 1 多占 {size(each)}）" if each and each > 0 else ""
    if limit.most == 0:
        return Words(
            f"Not even a {name.en} of {limit.points[0].value} fits.",
            f"{name.zh}为 {limit.points[0].value} 也放不下。",
        )
    most = count(limit.most)
    if limit.exact:
        return Words(
            f"The largest {name.en} that fits is {most}{more}.",
            f"放得下的最大{name.zh}为 {most}{more_zh}。",
        )
    if limit.next is not None:
        beyond = count(limit.next)
        return Words(
            f"A {name.en} of {most} fits{more}, one of {beyond} does not.",
            f"{name.zh}为 {most} 时放得下{more_zh}，{beyond} 时放不下。",
        )
    return Words(
        f"A {name.en} of {most} still fits{more}; the search ended there.",
        f"{name.zh} {most} 仍放得下{more_zh}；搜索到此为止。",
    )


def _facts(case: Case) -> Facts:
    trace = case.trace
    peak_s = case.run.analysis.memory.peak_time_s if case.run.analysis.memory else None
    when = (
        Words(f"{seconds(peak_s)} after the step began", f"这一步开始后 {seconds(peak_s)}")
        if peak_s is not None else None
    )  # fmt: skip
    rows = [
        Fact(Words("allocated by tensors", "张量占用"), float(case.peak_bytes), "bytes",
             "computed", note=when),
        Fact(Words("reserved by the allocator", "分配器保留"), float(trace.peak_reserved_bytes),
             "bytes", "estimated",
             note=Words("segments with their holes, as nvidia-smi sees them (without the context)",
                        "含空洞的内存段，即 nvidia-smi 所见（不含上下文）")),
        Fact(Words("a program can have", "程序可用"), float(case.capacity_bytes), "bytes",
             case.device.origin("memory_usable_bytes") or ""),
        Fact(Words("parameters", "参数"), float(case.program.parameters), "count", "computed"),
    ]  # fmt: skip
    if case.program.first_step_extra_bytes:
        rows.append(
            Fact(Words("more in the very first step", "第一步额外占用"),
                 float(case.program.first_step_extra_bytes), "bytes", "computed")
        )  # fmt: skip
    if trace.releases:
        rows.append(
            Fact(Words("cached segments given back", "归还缓存段的次数"), float(trace.releases),
                 "count", "computed",
                 note=Words("the memory is nearly full, which costs time", "显存将满，会拖慢速度"))
        )  # fmt: skip
    return Facts(tuple(rows))


def _room(case: Case, limits: Sequence[Limit]) -> Section:
    blocks: list[Block] = []
    if limits:
        rows = []
        for limit in limits:
            each = limit.bytes_each
            rows.append((
                FIELDS[limit.field], limit.here, limit.most, limit.next, each, len(limit.points),
            ))  # fmt: skip
        blocks.append(
            Table(
                Words("How much more fits", "还能放多少"),
                (
                    Column(Words("what", "项目")),
                    Column(Words("now", "当前")),
                    Column(Words("largest that fits", "放得下的最大值")),
                    Column(Words("does not fit", "放不下")),
                    Column(Words("one more adds", "每增加 1"), "bytes"),
                    Column(Words("steps captured", "捕获次数"), "count"),
                ),
                tuple(rows),
            )
        )
        blocks += over_sizes(case, limits)
    else:
        blocks.append(Paragraph(Words(
            "The sizes are fixed in the workload's own code, so none was searched.",
            "大小写在工作负载自己的代码里，因此没有搜索。"), "doubt"))  # fmt: skip
    blocks.append(on_devices(case))
    return Section(Words("What would still fit", "还放得下什么"), tuple(blocks))


def _advice(case: Case, found: Sequence[Change]) -> Section:
    title = Words("What to change first", "先改什么")
    if not found:
        text = Words(
            "No option of this workload saves memory; in code of your own, try "
            "torch.utils.checkpoint, a narrower dtype, or fewer optimizer states.",
            "此工作负载没有能节省显存的选项；在自己的代码里可尝试 torch.utils.checkpoint、"
            "更窄的数据类型或状态更少的优化器。",
        )
        return Section(title, (Paragraph(text),))
    return Section(title, (change_bars(case, found), change_table(case, found)))


def _commands(case: Case) -> tuple[str, ...]:
    name = case.workload if isinstance(case.workload, str) else "file.py:build"
    where = case.on if isinstance(case.on, str) else case.device.id
    task = f" --task {case.program.task}" if case.program.task and case.can_change else ""
    known = [
        f"gpuscope predict {name}{task} --on {where} --report report.html",
    ]
    if case.can_change:
        known.append(f"gpuscope predict {name}{task} --on {where} --sweep batch=1..64")
    return tuple(known)


def _assumptions(case: Case) -> tuple[Words, ...]:
    return (
        Words(
            "The third step is shown: optimizer states exist, and segments are as real steps "
            "leave them.",
            "所示为第三步：优化器状态已存在，内存段与真实运行留下的一样。",
        ),
        Words(
            "Lengths beyond those that a model was made for are tried all the same.",
            "超出模型设计长度的序列也照样尝试。",
        ),
        Words(
            "The CUDA context and libraries' own memory are outside of what a program can have.",
            "CUDA 上下文和库自身占用不计入程序可用显存。",
        ),
    )
