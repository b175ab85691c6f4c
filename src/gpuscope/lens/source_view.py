"""The kernel's source with a remark on each line that touches memory or splits a warp."""

from __future__ import annotations

from pathlib import Path

from gpuscope.explain.numbers import percent, three
from gpuscope.explain.types import Code, CodeLine, Tone, Words
from gpuscope.lens.types import Access, Launch, LineActivity, SourceFunction

_NOTED = 1.05


def source_view(launch: Launch, function: SourceFunction, whole_warp: int) -> Code:
    """One function with its remarks.

    Args:
        launch: whose accesses are told.
        function: the kernel, or a function that it called.
        whole_warp: lanes of a warp.
    """
    lines = []
    for number, text in enumerate(function.lines, function.first_line):
        accesses = [
            a for a in launch.accesses if a.file == function.file and a.line == number
        ]  # fmt: skip
        activity = next(
            (a for a in launch.activity if a.file == function.file and a.line == number), None
        )
        dangers = _dangers(launch, function.file, number)
        lines.append(_line(number, text, accesses, activity, dangers))
    name = Path(function.file).name
    return Code(
        title=Words(f"{function.name} in {name}", f"{name} 中的 {function.name}"),
        language="python",
        lines=tuple(lines),
        note=_key(launch, whole_warp),
    )


def _key(launch: Launch, whole_warp: int) -> Words | None:
    if not launch.accesses:
        return None
    return Words(
        f"A request is one warp ({whole_warp} lanes) executing one access.",
        f"一次请求 = 一个线程束（{whole_warp} 个线程）执行一次访问。",
    )


def _dangers(launch: Launch, file: str, line: int) -> list[Words]:
    """What may hang or give wrong results at a line."""
    found = []
    for race in launch.races:
        ends = ((race.file, race.line), (race.other_file, race.other_line))
        for here, there in (ends, ends[::-1]):
            if here == (file, line):
                en = f"no barrier between this and line {there[1]}: {race.array} is left to chance"
                zh = f"与第 {there[1]} 行之间没有同步：{race.array} 的内容全凭运气"
                found.append(Words(en, zh))
    if any((barrier.file, barrier.line) == (file, line) for barrier in launch.barriers):
        found.append(
            Words("not all threads of the block come here", "线程块中并非所有线程都到达这里")
        )
    return list(dict.fromkeys(found))


def _line(
    number: int, text: str, accesses: list[Access], activity: LineActivity | None,
    dangers: list[Words],
) -> CodeLine:  # fmt: skip
    parts = [access_words(access) for access in accesses] + dangers
    tones: list[Tone] = ["warning" if access.wasteful else "good" for access in accesses]
    tones += ["warning"] * len(dangers)
    if activity is not None and activity.partial and activity.lanes * _NOTED < activity.present:
        share = percent(activity.lanes / activity.present)
        parts.append(Words(f"{share} of the lanes active", f"{share} 的线程活跃"))
        tones.append("warning")
    if not parts:
        return CodeLine(number, text)
    note = Words("; ".join(p.en for p in parts), "；".join(p.zh for p in parts))
    tone: Tone = "warning" if "warning" in tones else ("good" if "good" in tones else "plain")
    return CodeLine(number, text, note, tone)


def access_words(access: Access) -> Words:
    """An access in a few words: "load source: 32 sectors a request, 4 would do"."""
    kind = {"load": "读", "store": "写", "atomic": "原子"}[access.kind]
    en, zh = f"{access.kind} {access.array}: ", f"{kind} {access.array}："
    if access.space == "global":
        each, best = access.sectors_per_request, access.ideal_sectors / access.requests
        en += f"{three(each)} sector{'' if each == 1 else 's'} a request"
        zh += f"每次请求 {three(each)} 个扇区"
        if access.wasteful and each > best * _NOTED:
            en += f", {three(best)} would do ({three(each / best)}×)"
            zh += f"，只需 {three(best)} 个（{three(each / best)} 倍）"
    else:
        each, best = access.passes_per_request, access.ideal_passes / access.requests
        where = ("shared", "共享内存") if access.space == "shared" else ("constant", "常量内存")
        passes = "pass" if each == 1 else "passes"
        en += f"{three(each)} {passes} a request over {where[0]} memory"
        zh += f"每次请求 {three(each)} 遍{where[1]}"
        if each > best * _NOTED and access.space == "shared":
            en += f" ({access.worst_ways}-way bank conflict)"
            zh += f"（{access.worst_ways} 路存储体冲突）"
    if access.kind == "atomic":
        lanes = "1 lane" if access.worst_rounds == 1 else f"up to {access.worst_rounds} lanes"
        en += f", {lanes} at one address"
        zh += f"，同一地址最多 {access.worst_rounds} 个线程"
    return Words(en, zh)
