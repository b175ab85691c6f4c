"""The ranks' story in words: every reason has them, in both languages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuscope.analysis.findings.wait_for_rank import _HINTS, _KINDS
from gpuscope.analysis.rank_words import REASONS, SHORT, rank_sentences
from gpuscope.analysis.recorded_types import (
    LATE_REASONS,
    CollectiveCall,
    RankShare,
    RankStory,
    Straggler,
)
from gpuscope.document.text import render


def spoken(of: RankStory) -> tuple[str, str]:
    said = rank_sentences(of)
    return said, render(said, "zh")


def story(reason: str) -> RankStory:
    shares = (
        RankShare(0, 1e-3, 3e-3, 0.0, 0.0, 0, 1e-3, 3e-3, None, 5e-3, 0.0),
        RankShare(1, 1e-3, 0.0, 0.0, 3e-3, 1, 1e-3, 0.0, None, 5e-3, 0.0),
    )
    call = CollectiveCall(
        "all_reduce", "0", 0, 0, (0, 1), (3e-3, 0.0), 1e-3, 1, 3e-3, 3e-3, reason, "aten::mm", 2e-3
    )
    return RankStory(
        ranks=shares,
        matched=1,
        unmatched=0,
        steps=1,
        span_s=1e-2,
        sorts=(),
        calls=(call,),
        waiting_by_reason={reason: 3e-3},
        causes=((1, reason, 3e-3),),
        straggler=Straggler(1, 1.0, reason, (3e-3, 0.0), None, None),
        complete=True,
    )


@pytest.mark.parametrize("reason", LATE_REASONS)
def test_every_reason_has_words_and_a_hint(reason: str) -> None:
    english, chinese = spoken(story(reason))
    assert "Rank 1 causes 100 % of the waiting" in english
    assert "rank 1 造成了 100 % 的等待" in chinese
    assert REASONS[reason] in english
    assert reason in SHORT
    if reason != "began late":  # that is the recorder's: no straggler, no hint
        assert _KINDS.get(reason, reason) in _HINTS


def test_a_late_recording_is_the_recorders_and_no_verdict() -> None:
    english, chinese = spoken(replace(story("began late"), straggler=None))
    assert "3.00 ms of the waiting is the recorder's, not the program's" in english
    assert "the recording of rank 1 began late" in english
    assert "causes" not in english
    assert "rank 1 的记录开始得晚" in chinese


@pytest.mark.parametrize(
    ("seen", "words", "words_zh"),
    [
        ("one step", "In the one recorded step, rank 1 causes", "在记录的唯一一步中，rank 1"),
        ("few collectives", "In the few recorded collectives, rank 1", "在记录的少数集合通信中"),
    ],
)
def test_a_verdict_from_too_little_says_so(seen: str, words: str, words_zh: str) -> None:
    told = story("more work")
    assert told.straggler is not None
    english, chinese = spoken(replace(told, straggler=replace(told.straggler, seen=seen)))
    assert words in english
    assert "Record more steps" in english
    assert words_zh in chinese
    assert "记录更多训练步" in chinese
    assert "Record more" not in rank_sentences(told)


def test_shares_are_of_transfer_and_waiting() -> None:
    english, _ = spoken(story("more work"))
    assert "of 5.00 ms in their kernels" in english
    assert "40 % is transfer and 60 % is waiting" in english


def test_missing_ranks_are_told() -> None:
    english, chinese = spoken(replace(story("more work"), complete=False))
    assert "Not every rank is recorded" in english
    assert "并非所有 rank 都有记录" in chinese
