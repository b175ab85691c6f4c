"""Which candidates are composed: no block is recorded for a split that cannot win."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from made import asked, judged

from gpuscope.planning import composing
from gpuscope.planning.blocks import Block, Passes
from gpuscope.planning.composing import composed, first_of_each
from gpuscope.planning.score import Scores
from gpuscope.planning.types import Candidate

NONE = Passes(0.0, 0.0)
LEAST_S = 0.5


def block(passes_s: float) -> Block:
    """All blocks and what is around them take so long, of a model of 32."""
    each = passes_s / 32 / 2
    return Block(
        forward_s=each, backward_s=each, inputs_s=0.0, weights_s=0.0, again_s={"none": 0.0},
        first=NONE, last=NONE, host=NONE, again_host={"none": NONE}, inputs_host_s=0.0,
        weights_host_s=0.0, ends_host_s=0.0, sorts={}, optimizer_s=0.0,
    )  # fmt: skip


class Recorded:
    """Notes for which split a block is asked for."""

    def __init__(self, passes_s: float) -> None:
        self.passes_s, self.asked = passes_s, list[int]()

    def of(self, candidate: Candidate) -> Block:
        self.asked.append(candidate.plan.tp)
        return block(self.passes_s)


WHOLE = judged(1.0, "8xh200", dp=8).candidate
SPLIT = judged(1.0, "8xh200", dp=4, tp=2).candidate


def asked_for(
    patch: pytest.MonkeyPatch,
    estimates_s: Sequence[float],
    passes_s: float,
    found: Sequence[Candidate] = (WHOLE, SPLIT),
) -> list[int]:
    """Which splits are recorded where the first candidate is composed to take a second."""
    patch.setattr(composing, "composed_s", lambda *_: 1.0)
    patch.setattr(composing, "held_bytes", lambda *_: 1.0)
    least = np.full(len(found), LEAST_S)
    scores = Scores(least, np.asarray(estimates_s), least, least)
    tables = Recorded(passes_s)
    list(composed(asked(), found, range(len(found)), scores, tables))  # type: ignore[arg-type]
    return tables.asked


def test_a_split_whose_arithmetic_is_no_quicker_is_not_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Blocks reach 0.5 / 0.9 of the peak, the first score takes 0.65: 0.13 s more of arithmetic.
    assert asked_for(monkeypatch, (0.8, 0.95), 0.9) == [1]
    assert asked_for(monkeypatch, (0.8, 0.80), 0.9) == [1, 2]


def test_blocks_as_good_as_the_score_takes_them_leave_it_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert asked_for(monkeypatch, (0.8, 0.95), LEAST_S / 0.65) == [1, 2]
    assert asked_for(monkeypatch, (0.8, 1.02), LEAST_S / 0.65) == [1]


def test_of_another_number_of_devices_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    other = judged(1.0, "4xh200", dp=2, tp=2).candidate
    assert asked_for(monkeypatch, (0.8, 3.0), 0.9, (WHOLE, other)) == [1, 2]


def test_the_first_of_each_cluster_come_first() -> None:
    small, large = (judged(1.0, f"{n}xh200").candidate for n in (4, 8))
    found = [large, large, small, judged(1.0, "2xh200").candidate]
    assert first_of_each(found, range(4)) == [0, 2, 3, 1]
    assert first_of_each(found, range(4), 2) == [0, 2, 1, 3]
