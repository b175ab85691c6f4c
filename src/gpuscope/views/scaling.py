"""How a job scales: the same workload on more and more devices, as a table and as curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rich.console import RenderableType
from rich.text import Text

from gpuscope.explain.types import (
    Axis,
    Block,
    Cell,
    Column,
    Lines,
    Paragraph,
    Series,
    Table,
    Words,
)
from gpuscope.run import Run
from gpuscope.views import units
from gpuscope.views.figures import Figures, figures
from gpuscope.views.i18n import tr
from gpuscope.views.terminal.layout import Bar, bars, right, section, table

Sort = Literal["strong", "weak", "mixed"]

_EQUAL = 0.005
"""Work that differs by less than this is the same."""


def is_scaling(runs: Sequence[Run]) -> bool:
    """Whether runs are one job on different numbers of one kind of device."""
    counts = [figures(run).devices for run in runs]
    return (
        len(runs) > 1 and len({run.device_id for run in runs}) == 1
        and len(set(counts)) == len(counts)
    )  # fmt: skip


def sort_of(runs: Sequence[Run]) -> Sort | None:
    """Strong: the same work a step on all; weak: the same a device; None where unknown."""
    work = [run.tokens if run.tokens is not None else run.samples for run in runs]
    known = [(amount, figures(run).devices) for amount, run in zip(work, runs, strict=True)
             if amount]  # fmt: skip
    if len(known) < len(runs):
        return None
    if _alike([float(amount) for amount, _ in known]):
        return "strong"
    return "weak" if _alike([amount / devices for amount, devices in known]) else "mixed"


def _alike(values: Sequence[float]) -> bool:
    return max(values) - min(values) <= _EQUAL * max(values)


def efficiency(run: Run, first: Run) -> float | None:
    """What a device does in a second, against the first run's; 1 is perfect scaling."""
    own, base = _each(figures(run)), _each(figures(first))
    return None if own is None or not base else own / base


def _each(shown: Figures) -> float | None:
    """Tokens (samples) a second and device."""
    if shown.tokens_per_s_per_device is not None:
        return shown.tokens_per_s_per_device
    return shown.samples_per_s_per_device


_ABOUT: dict[Sort | None, str] = {
    "strong": "Strong scaling: the work of a step stays the same, so each device does less of it.",
    "weak": "Weak scaling: the work of a device stays the same, so a step does more.",
    "mixed": "Neither the work of a step nor that of a device stays the same.",
    None: "How much a step works on is not known: only step times are compared.",
}

_ABOUT_ZH: dict[Sort | None, str] = {
    "strong": "强扩展：每步的总工作量不变，每个设备分到的更少。",
    "weak": "弱扩展：每个设备的工作量不变，每步的总工作量更多。",
    "mixed": "每步的总工作量与每个设备的工作量都有变化。",
    None: "一步的工作量未知：只比较单步时间。",
}


def render_scaling(runs: Sequence[Run], lang: str = "en") -> RenderableType:
    """Return one row a number of devices; the bar is the efficiency against the first row."""
    tokens = any(run.tokens is not None for run in runs)
    rows = table(
        right(tr("devices", lang)), right(tr("step", lang)),
        right(tr("tokens/s", lang) if tokens else tr("samples/s", lang)),
        right(tr("a device", lang)), right(tr("efficiency", lang)), bars(),
        right(tr("exposed", lang)), right(tr("bubble", lang)), right(tr("peak memory", lang)),
        right(tr("$/M tokens", lang) if tokens else tr("$/step", lang)),
    )  # fmt: skip
    for run in runs:
        shown, share = figures(run), efficiency(run, runs[0])
        size = Text(units.size(run.peak_memory_bytes, lang))
        if run.fits is False:
            size.stylize("bold red")
            size.append(" !")
        rate = shown.tokens_per_s if tokens else shown.samples_per_s
        money = shown.usd_per_million_tokens if tokens else shown.usd_per_step
        rows.add_row(
            f"{shown.devices:,}", Text(units.time(run.step_time_s, lang), style="bold"),
            units.count(rate, lang), units.count(_each(shown), lang),
            units.percent(share, lang), Bar(share or 0.0, 10, "green", "░"),
            units.percent(lost_share(run, "exposed"), lang),
            units.percent(lost_share(run, "bubble"), lang), size, units.money(money, lang),
        )  # fmt: skip
    about = (_ABOUT_ZH if lang == "zh" else _ABOUT)[sort_of(runs)]
    about += " " + tr("Efficiency: what a device does in a second, against the first row.", lang)
    if any(run.fits is False for run in runs):
        about += " " + tr("! does not fit.", lang)
    parts: list[RenderableType] = [rows]
    story = runs[-1].analysis.job
    if story is not None:
        limit = story.limit_zh if lang == "zh" else story.limit
        said = tr("With {n} devices: {limit}", lang, n=f"{story.world_size:,}", limit=limit)
        parts += [Text(), Text(said, style="bold")]
    return section(tr("How it scales", lang), about, *parts)


def lost_share(run: Run, kind: str) -> float | None:
    """Share of the step that all ranks lose to one kind of part, on average; None for no job."""
    story = run.analysis.job
    if story is None:
        return None
    return story.mean_s(kind) / story.step_s if story.step_s else None


def scaling_blocks(runs: Sequence[Run]) -> tuple[Block, ...]:
    """Return the curve and the table for a page; () where the runs are no scaling."""
    if not is_scaling(runs):
        return ()
    ordered = sorted(runs, key=lambda run: figures(run).devices)
    shown = [figures(run) for run in ordered]
    sort, x = sort_of(ordered), tuple(float(each.devices) for each in shown)
    blocks: list[Block] = [
        Paragraph(Words("How the job scales", "作业如何扩展"), "key"),
        Paragraph(Words(_ABOUT[sort], _ABOUT_ZH[sort])),
    ]
    axis = Axis(Words("devices", "设备数"), "count", log=True)
    if sort is not None:
        blocks.append(_rates(ordered, shown, x, axis))
    parts = _losses(ordered, x)
    if parts:
        blocks.append(Lines(
            Words("What the ranks lose", "各进程的损失"), axis,
            Axis(Words("share of the step", "占一步的比例"), "share"), parts,
            note=Words("Means over all ranks.", "全部进程的平均。"),
        ))  # fmt: skip
    return (*blocks, _table(ordered, shown))


def _rates(
    runs: Sequence[Run], shown: Sequence[Figures], x: tuple[float, ...], axis: Axis
) -> Lines:
    tokens = runs[0].tokens is not None
    rates = tuple(each.tokens_per_s if tokens else each.samples_per_s for each in shown)
    first = rates[0] or 0.0
    what = Words("tokens/s", "token/秒") if tokens else Words("samples/s", "样本/秒")
    return Lines(
        Words("Throughput of the job", "作业的吞吐量"), axis, Axis(what, "count", log=True),
        (
            Series(Words("predicted", "预测"), x, rates, role="compute"),
            Series(Words("perfect scaling", "理想扩展"), x, tuple(first * n / x[0] for n in x),
                   role="reference"),
        ),
    )  # fmt: skip


def _losses(runs: Sequence[Run], x: tuple[float, ...]) -> tuple[Series, ...]:
    found = []
    for kind, label, role in (
        ("exposed", Words("exposed communication", "未被掩盖的通信"), "communication"),
        ("bubble", Words("pipeline bubble", "流水线气泡"), "waste"),
        ("imbalance", Words("waiting for other ranks", "等待其他进程"), "idle"),
        ("chance", Words("waiting by chance", "随机等待"), "tail"),
    ):
        shares = tuple(lost_share(run, kind) for run in runs)
        if any(shares):
            found.append(Series(label, x, shares, role=role))  # type: ignore[arg-type]
    return tuple(found)


def _table(runs: Sequence[Run], shown: Sequence[Figures]) -> Table:
    columns = (
        Column(Words("devices", "设备数"), "count"), Column(Words("step", "单步"), "s"),
        Column(Words("tokens/s", "token/秒"), "count"),
        Column(Words("a device", "每设备"), "count"),
        Column(Words("efficiency", "效率"), "share"),
        Column(Words("exposed", "未掩盖"), "share"), Column(Words("bubble", "气泡"), "share"),
        Column(Words("peak memory", "显存峰值"), "bytes"),
        Column(Words("fits?", "放得下？")), Column(Words("$/M tokens", "每百万 token 美元"), "usd"),
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = []
    for run, each in zip(runs, shown, strict=True):
        rows.append((
            each.devices, run.step_time_s, each.tokens_per_s, _each(each),
            efficiency(run, runs[0]), lost_share(run, "exposed"), lost_share(run, "bubble"),
            run.peak_memory_bytes, _FITS[run.fits], each.usd_per_million_tokens,
        ))  # fmt: skip
    return Table(Words("Point by point", "逐点"), columns, tuple(rows))


_FITS = {True: Words("yes", "是"), False: Words("no", "否"), None: None}
