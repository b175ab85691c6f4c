"""What the recording holds at all, and what its recorder says of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from gpuscope.analysis.recorded_types import Remark
from gpuscope.analysis.trust_checks.facts import RankFacts
from gpuscope.analysis.window import COMMUNICATION
from gpuscope.analysis.wording import percent
from gpuscope.timeline.types import EVENT_KINDS

LACKS = frozenset({"no_memory_events", "no_steps", "one_rank"})
"""What was not recorded, without anything being wrong: a note that still takes its answer away."""

SKIPPED_SHARE = 0.01
"""Unusable events above this share of the file make its sums doubtful."""

_LOST = re.compile(r"drop|lost|overflow|out of (memory|order)|truncat|incomplete", re.IGNORECASE)
_FAILED = re.compile(r"error|fail|warn|not (available|supported|permitted)", re.IGNORECASE)
_MARKS = (EVENT_KINDS.index("step"), EVENT_KINDS.index("module"))


def check(facts: RankFacts) -> Iterator[Remark]:
    """Yield what the rank's recording lacks."""
    yield from _file(facts)
    yield from _messages(facts)
    yield from _lacks(facts)


def _file(facts: RankFacts) -> Iterator[Remark]:
    source = facts.source
    if source is None:
        return
    if source.cut_off:
        yield Remark(
            "cut_off", "doubt",
            f"The file ends in the middle: {source.events_read} whole events were read, what came "
            "after is missing.",
            f"文件在中间断开：读到 {source.events_read} 个完整事件，其后的内容缺失。",
            ("time", "idle", "communication", "steps", "memory"), facts.rank,
        )  # fmt: skip
    if source.events_skipped:
        total = source.events_read + source.events_skipped
        share = source.events_skipped / total
        yield Remark(
            "skipped_events", "doubt" if share >= SKIPPED_SHARE else "note",
            f"{source.events_skipped} of {total} events ({percent(share)}) could not be used.",
            f"{total} 个事件中有 {source.events_skipped} 个（{percent(share)}）无法使用。",
            ("time", "idle"), facts.rank,
        )  # fmt: skip


def _messages(facts: RankFacts) -> Iterator[Remark]:
    """Warnings and errors that the recorder wrote; those about lost events raise doubts."""
    messages = facts.source.messages if facts.source is not None else ()
    lost = [m for m in messages if _LOST.search(m)]
    failed = [m for m in messages if m not in lost and _FAILED.search(m)]
    if lost:
        yield Remark(
            "recorder_lost_events", "doubt",
            f'The recorder says that events were lost: "{_short(lost[0])}"{_more(lost)}.',
            f"记录器报告有事件丢失：“{_short(lost[0])}”{_more(lost, chinese=True)}。",
            ("time", "idle", "communication"), facts.rank,
        )  # fmt: skip
    if failed:
        yield Remark(
            "recorder_message", "note",
            f'The recorder says: "{_short(failed[0])}"{_more(failed)}.',
            f"记录器的消息：“{_short(failed[0])}”{_more(failed, chinese=True)}。",
            (), facts.rank,
        )  # fmt: skip


def _short(message: str, most: int = 160) -> str:
    line = " ".join(message.split())
    return line if len(line) <= most else line[: most - 3] + "..."


def _more(messages: list[str], chinese: bool = False) -> str:
    if len(messages) < 2:
        return ""
    count = len(messages) - 1
    return f"（另有 {count} 条）" if chinese else f" (and {count} more)"


def _lacks(facts: RankFacts) -> Iterator[Remark]:
    events = facts.timeline.events
    host = facts.host[~np.isin(events.kind[facts.host], _MARKS)]
    if len(host) == 0:
        yield Remark(
            "no_host_events", "cannot",
            "The host is not recorded: why the device was idle cannot be told.",
            "没有记录主机：无法说明设备为何空闲。", ("host",), facts.rank,
        )  # fmt: skip
    if not any(counter.name == "allocated" for counter in facts.timeline.counters):
        yield Remark(
            "no_memory_events", "note",
            "Memory was not recorded (record it with profile_memory=True).",
            "没有记录显存（使用 profile_memory=True 记录）。", ("memory",), facts.rank,
        )  # fmt: skip
    if not facts.steps:
        yield Remark(
            "no_steps", "note",
            "No steps are marked: all times are of the whole recording.",
            "没有标记训练步：所有时间都针对整个记录。", ("steps",), facts.rank,
        )  # fmt: skip
    size = facts.source.world_size if facts.source is not None else None
    talks = bool((events.kind[facts.device] == COMMUNICATION).any()) if len(facts.device) else False
    if not facts.several and talks and (size is None or size > 1):
        of = f" of {size}" if size else ""
        of_zh = f"（共 {size} 个）" if size else ""
        yield Remark(
            "one_rank", "note",
            f"Only one rank{of} is here: what its collectives spend on waiting for other ranks "
            "cannot be told from transfer.",
            f"这里只有一个进程{of_zh}：无法区分集合通信中的传输与等待其他进程。",
            ("ranks",), facts.rank,
        )  # fmt: skip
