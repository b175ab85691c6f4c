"""All claims together: complete, quick, in two languages, and against an earlier opinion."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest

from gpuscope.document.text import render
from gpuscope.errors import UnknownNameError
from gpuscope.learn.claims import registry
from gpuscope.learn.claims.registry import (
    all_claims,
    all_verdicts,
    counts,
    judged,
    search,
    topic_keys,
)
from gpuscope.learn.claims.scales import SCALES
from gpuscope.learn.claims.types import JUDGEMENTS, METHODS

HINTS = json.loads((Path(__file__).parents[2] / "data" / "claims_hints.json").read_text("utf-8"))
"""What people who read the articles thought of each claim, before anything was computed."""

DIFFERENT = {
    "A-002": ("wrong", "cannot say", "no maker states the areas of a die"),
    "A-021": ("imprecise", "depends", "60 lies between 7.9 (FP16) and 112 (FP4), near neither"),
    "A-070": ("imprecise", "cannot say", "a price between two parties"),
    "B-008": ("correct", "cannot say", "only the image's registry knows"),
    "B-021": ("correct", "cannot say", "only the image's registry knows"),
    "C-059": ("wrong", "depends", "by its own figures it is, by those of a warm product not"),
    "D-001": ("wrong", "imprecise", "POWER8, POWER9 and Grace have NVLink to their memory"),
    "E-007": ("correct", "cannot say", "dates inside a company"),
    "E-010": ("correct", "cannot say", "no maker's source states the process"),
    "E-025": ("wrong", "imprecise", "2022 for 2023: next year counts as imprecise, as for E-048"),
}
"""Where the computed verdict differs from that on purpose, and why."""


def test_no_claim_is_lost() -> None:
    assert {claim.id for claim in all_claims()} == set(HINTS)


def test_verdicts_agree_with_the_earlier_opinion_but_for_reasons() -> None:
    different = {}
    for each in all_verdicts():
        hint = HINTS[each.claim.id]
        found = each.verdict.verdict
        if hint in ("correct", "imprecise", "wrong") and found != hint.replace("correct", "right"):
            different[each.claim.id] = (hint, found)
    assert different == {id: (hint, found) for id, (hint, found, _) in DIFFERENT.items()}


def test_most_are_computed() -> None:
    methods = Counter(each.verdict.method for each in all_verdicts())
    assert sum(methods.values()) - methods["none"] >= 225
    assert min(methods[method] for method in METHODS) >= 5


def test_all_are_judged_in_three_seconds() -> None:
    start = time.perf_counter()
    for claim in all_claims():
        claim.verdict()
    assert time.perf_counter() - start < 3


@pytest.mark.parametrize("each", all_verdicts(), ids=lambda each: each.claim.id)
def test_every_verdict_is_whole(each) -> None:
    claim, verdict = each.claim, each.verdict
    assert verdict.verdict in JUDGEMENTS
    assert (verdict.method == "none") == (verdict.verdict == "cannot say")
    assert claim.unit in SCALES
    assert (verdict.truth is None) == (verdict.method == "none")
    for words in filter(None, (claim.words, claim.topic.name, verdict.truth, verdict.evidence)):
        chinese = render(words, "zh")
        assert "{" not in words + chinese
        assert "nan" not in words.lower().split()
        english = re.search(r"\b(the|of|and|with|from|against)\b", chinese)
        assert not english or words is verdict.evidence
        assert not re.search("[一-鿿]", words)
    assert re.search("[一-鿿]", render(claim.words, "zh") + render(claim.topic.name, "zh"))
    assert len(set(verdict.sources)) == len(verdict.sources)


def test_words_are_told_once() -> None:
    for lang in ("en", "zh"):
        said = Counter(render(claim.words, lang) for claim in all_claims())
        # The same statement of two articles is in the list twice.
        twice = {words for words, n in said.items() if n > 1}
        assert not twice


def test_wrong_ones_come_first() -> None:
    order = [JUDGEMENTS.index(each.verdict.verdict) for each in search()]
    assert order == sorted(order)
    assert len(order) == len(HINTS)


def test_search() -> None:
    assert {each.claim.id for each in search(["c-015"])} == {"C-015"}
    found = search(["pcie", "both"])
    assert {"C-015", "C-016", "C-017"} <= {each.claim.id for each in found}
    assert search(["显存"], topic="memory")
    assert all(each.verdict.verdict == "wrong" for each in search(verdict="wrong"))
    assert {each.claim.topic.key for each in search(topic="memory")} == {"memory"}
    assert search(topic="TPU") == search(topic="tpu")
    assert search(["no such words"]) == ()


def test_what_does_not_exist_is_told() -> None:
    with pytest.raises(UnknownNameError, match="A-005"):
        judged("A-0005")
    with pytest.raises(UnknownNameError, match="wrong"):
        search(verdict="wrongg")
    with pytest.raises(UnknownNameError, match="memory"):
        search(topic="memmory")
    assert judged("a-005").claim.id == "A-005"


def test_topics_and_counts() -> None:
    assert len(topic_keys()) == len({claim.topic.name for claim in all_claims()})
    found = counts(all_verdicts())
    assert sum(found.values()) == len(HINTS)
    assert list(found) == list(JUDGEMENTS)


def test_two_claims_of_one_name_are_refused(monkeypatch, tmp_path) -> None:
    for name in ("one.toml", "two.toml"):
        shutil.copy(registry.TOPICS / "tpu.toml", tmp_path / name)
    monkeypatch.setattr(registry, "TOPICS", tmp_path)
    registry.all_claims.cache_clear()
    try:
        with pytest.raises(ValueError, match="two claims named"):
            all_claims()
    finally:
        registry.all_claims.cache_clear()
