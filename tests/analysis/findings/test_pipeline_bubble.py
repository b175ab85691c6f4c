"""The bubble as a finding: from 5 % of the step on, with the mean as its gain."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gpuscope.analysis.findings import Facts
from gpuscope.analysis.findings.communication_bound import communication_bound
from gpuscope.analysis.findings.imbalance import imbalance
from gpuscope.analysis.findings.pipeline_bubble import pipeline_bubble
from gpuscope.analysis.findings.wait_for_rank import wait_for_rank
from gpuscope.analysis.job_types import JobPart, JobRank, JobStory
from gpuscope.analysis.types import About
from gpuscope.document.text import render


@dataclasses.dataclass
class _Facts:
    """What these findings read of the facts."""

    job: JobStory | None
    ranks: object = None
    losses: Any = dataclasses.field(default_factory=lambda: SimpleNamespace(talk=None))

    def term_s(self, key: str) -> float:
        return 0.0

    def about(self, events: object, **options: object) -> About:
        return About()


def facts(*ranks: tuple[float, float, float]) -> Facts:
    """A step of 10 s on ranks with (compute, exposed, bubble) seconds."""
    told = tuple(
        JobRank(n, 1, (n,), compute, exposed, bubble, 0.0, 10 - compute - exposed - bubble, ())
        for n, (compute, exposed, bubble) in enumerate(ranks)
    )
    mean = [sum(rank[at] for rank in ranks) / len(ranks) for at in range(3)]
    parts = tuple(
        JobPart(kind, "dp" if kind == "exposed" else "", time)
        for kind, time in zip(("compute", "exposed", "bubble"), mean, strict=True)
    )
    story = JobStory(10.0, 0.0, (("pp", len(ranks)),), told, parts, "")
    return cast(Facts, cast(Any, _Facts(story)))


def test_the_bubble_is_the_mean_over_the_ranks() -> None:
    found = pipeline_bubble(facts((6, 0, 2), (4, 0, 4)))
    assert found is not None
    assert found.max_gain_s == pytest.approx(3.0)
    assert "takes 30 % of the step" in found.title
    assert "rank 1 most, 4 s; rank 0 least, 2 s" in found.evidence
    assert "30 %" in render(found.title, "zh")
    assert pipeline_bubble(facts((9, 0, 0.4), (9, 0, 0.4))) is None


def test_uneven_work_names_the_longest_rank() -> None:
    found = imbalance(facts((8, 0, 0), (4, 0, 0)))
    assert found is not None
    assert found.max_gain_s == pytest.approx(2.0)
    assert "rank 0 computes 20 % of the step longer" in found.title
    assert "rank 0" in render(found.title, "zh")
    assert imbalance(facts((8, 0, 0), (7.5, 0, 0))) is None


def test_exposed_communication_of_a_job_is_told_by_group() -> None:
    found = communication_bound(facts((6, 2, 0), (6, 4, 0)))
    assert found is not None
    assert found.max_gain_s == pytest.approx(3.0)
    assert "dp 3 s" in found.evidence
    assert communication_bound(facts((9, 0.4, 0), (9, 0.4, 0))) is None


def test_a_recording_is_no_job() -> None:
    nothing = cast(Facts, cast(Any, _Facts(None)))
    assert pipeline_bubble(nothing) is None
    assert imbalance(nothing) is None
    assert wait_for_rank(nothing) is None
