"""The kernel's source with a remark on each line that touches memory or splits a warp."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpuscope.document.blocks import Code, CodeLine, Tone
from gpuscope.document.quantities import Number, Percent, Ratio
from gpuscope.document.text import Text, Value, joined, plural
from gpuscope.kernel_lens.types import Access, Launch, LineActivity, SourceFunction

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
        accesses = [a for a in launch.accesses if a.file == function.file and a.line == number]
        activity = next(
            (a for a in launch.activity if a.file == function.file and a.line == number), None
        )
        dangers = _dangers(launch, function.file, number)
        lines.append(_line(number, text, accesses, activity, dangers))
    name = Path(function.file).name
    return Code(
        title=Text("{function} in {name}", function=function.name, name=name),
        language="python",
        lines=tuple(lines),
        note=_key(launch, whole_warp),
    )


def _key(launch: Launch, whole_warp: int) -> Text | None:
    if not launch.accesses:
        return None
    return Text(
        "A request is one warp ({whole_warp} lanes) executing one access.", whole_warp=whole_warp
    )


def _dangers(launch: Launch, file: str, line: int) -> list[Text]:
    """What may hang or give wrong results at a line."""
    found = []
    for race in launch.races:
        ends = ((race.file, race.line), (race.other_file, race.other_line))
        for here, there in (ends, ends[::-1]):
            if here == (file, line):
                found.append(
                    Text(
                        "no barrier between this and line {line}: {array} is left to chance",
                        line=there[1],
                        array=race.array,
                    )
                )
    if any((barrier.file, barrier.line) == (file, line) for barrier in launch.barriers):
        found.append(Text("not all threads of the block come here"))
    return list(dict.fromkeys(found))


def _line(
    number: int,
    text: str,
    accesses: list[Access],
    activity: LineActivity | None,
    dangers: list[Text],
) -> CodeLine:
    parts = [access_words(access) for access in accesses] + dangers
    tones: list[Tone] = ["warning" if access.wasteful else "good" for access in accesses]
    tones += ["warning"] * len(dangers)
    if activity is not None and activity.partial and activity.lanes * _NOTED < activity.present:
        share = Percent(activity.lanes / activity.present)
        parts.append(Text("{share} of the lanes active", share=share))
        tones.append("warning")
    if not parts:
        return CodeLine(number, text)
    note = joined(parts, "; ")
    tone: Tone = "warning" if "warning" in tones else ("good" if "good" in tones else "plain")
    return CodeLine(number, text, note, tone)


def access_words(access: Access) -> Text:
    """An access in a few words: "load source: 32 sectors a request, 4 would do"."""
    kinds = {"load": Text("load"), "store": Text("store"), "atomic": Text("atomic")}
    values: dict[str, Value] = {"kind": kinds[access.kind], "array": access.array}
    said = _sectors(access, values) if access.space == "global" else _passes(access, values)
    if access.kind != "atomic":
        return said
    return plural(
        "{said}, {count} lane at one address",
        "{said}, up to {count} lanes at one address",
        access.worst_rounds,
        said=said,
    )


def _sectors(access: Access, values: Mapping[str, Value]) -> Text:
    each, best = access.sectors_per_request, access.ideal_sectors / access.requests
    said = plural(
        "{kind} {array}: {each} sector a request",
        "{kind} {array}: {each} sectors a request",
        1 if each == 1 else 2,
        each=Number(each),
        **values,
    )
    if not access.wasteful or each <= best * _NOTED:
        return said
    return Text(
        "{said}, {best} would do ({times})", said=said, best=Number(best), times=Ratio(each / best)
    )


def _passes(access: Access, values: Mapping[str, Value]) -> Text:
    each, best = access.passes_per_request, access.ideal_passes / access.requests
    shared = access.space == "shared"
    said = plural(
        "{kind} {array}: {each} pass a request over {memory}",
        "{kind} {array}: {each} passes a request over {memory}",
        1 if each == 1 else 2,
        each=Number(each),
        memory=Text("shared memory") if shared else Text("constant memory"),
        **values,
    )
    if not shared or each <= best * _NOTED:
        return said
    return Text("{said} ({ways}-way bank conflict)", said=said, ways=access.worst_ways)
