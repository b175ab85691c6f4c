"""What a file lacks, and what its recorder says."""

from __future__ import annotations

from typing import Any

import numpy as np
from rank_builder import RankBuilder

from gpuscope.analysis.recorded_types import Remark
from gpuscope.analysis.trust_checks import recording
from gpuscope.analysis.trust_checks.facts import rank_facts
from gpuscope.timeline.types import Counter, Source


def remarks(world_size: int | None = None, talks: bool = False, **source: Any) -> dict[str, Remark]:
    b = RankBuilder()
    b.step(0, 100)
    b.host(0, 5)
    b.work(10, 20, launch_us=6)
    if talks:
        b.meet({0: 30}, 5, members=(0, 1))
    b.counters.append(Counter("allocated", "bytes", np.array([0]), np.array([1.0])))
    b.sources.append(Source(0, "a.json", world_size=world_size, **source))
    found = recording.check(rank_facts(b.timeline(), 0, several=False))
    return {remark.code: remark for remark in found}


def test_nothing_to_say() -> None:
    assert remarks() == {}


def test_a_file_that_ends_in_the_middle() -> None:
    found = remarks(cut_off=True, events_read=17)["cut_off"]
    assert found.severity == "doubt"
    assert "17 whole events" in found.sentence


def test_unusable_events() -> None:
    assert remarks(events_read=99, events_skipped=1)["skipped_events"].severity == "doubt"
    assert remarks(events_read=9_999, events_skipped=1)["skipped_events"].severity == "note"


def test_the_recorder_s_own_words() -> None:
    assert (
        remarks(messages=("CUPTI dropped 12 records",))["recorder_lost_events"].severity == "doubt"
    )
    failed = remarks(messages=("ERROR: gpuGetDeviceCount failed with code 35", "WARNING: b"))
    assert failed["recorder_message"].severity == "note"
    assert "(and 1 more)" in failed["recorder_message"].sentence
    assert remarks(messages=("INFO: Enabling GPU tracing",)) == {}


def test_one_rank_of_several() -> None:
    assert remarks(talks=True, world_size=8)["one_rank"].about == ("ranks",)
    assert "of 8" in remarks(talks=True, world_size=8)["one_rank"].sentence
    assert "one_rank" not in remarks(talks=True, world_size=1)
    assert "one_rank" not in remarks(world_size=8)
