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


def story(reason: str) -> RankStory:
    shares = (
        RankShare(0, 1e-3, 3e-3, 0.0, 0.0, 0, 1e-3, 3e-3, None, 5e-3, 0.0),
        RankShare(1, 1e-3, 0.0, 0.0, 3e-3, 1, 1e-3, 0.0, None, 5e-3, 0.0),
    )
    call = CollectiveCall(
        "all_reduce", "0", 0, 0, (0, 1), (3e-3, 0.0), 1e-3, 1, 3e-3, 3e-3, reason, "aten::mm", 2e-3
    )
    return RankStory(
        ranks=shares, matched=1, unmatched=0, steps=1, span_s=1e-2, sorts=(), calls=(call,),
        waiting_by_reason={reason: 3e-3}, causes=((1, reason, 3e-3),),
        straggler=Straggler(1, 1.0, reason, (3e-3, 0.0), None, None), complete=True,
    )  # fmt: skip


@pytest.mark.parametrize("reason", LATE_REASONS)
def test_every_reason_has_words_and_a_hint(reason: str) -> None:
    english, chinese = rank_sentences(story(reason))
    assert "Rank 1 causes 100 % of the waiting" in english
    assert "rank 1 造成了 100 % 的等待" in chinese
    assert REASONS[reason][0] in english
    assert reason in SHORT
    assert _KINDS.get(reason, reason) in _HINTS


def test_shares_are_of_transfer_and_waiting() -> None:
    english, _ = rank_sentences(story("more work"))
    assert "of 5.00 ms in their kernels" in english
    assert "40 % is transfer and 60 % is waiting" in english


def test_missing_ranks_are_told() -> None:
    english, chinese = rank_sentences(replace(story("more work"), complete=False))
    assert "Not every rank is recorded" in english
    assert "并非所有进程都有记录" in chinese
