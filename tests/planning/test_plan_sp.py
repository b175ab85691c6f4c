"""Tokens shared between tensor parallel ranks, or not: what it holds and sends, where it can be."""

from __future__ import annotations

import pytest
from made import asked

from gpuscope.planning.held import message_bytes
from gpuscope.planning.score import score
from gpuscope.planning.space import candidates
from gpuscope.planning.tables import Tables
from gpuscope.planning.types import Candidate, Question

OFF = (("sp", "off"),)


@pytest.fixture(scope="module")
def question() -> Question:
    return asked(model="llama-3.2-1b", devices="8", seq=1024, global_batch=16, sp="on,off")


def _named(question: Question, words: str) -> Candidate:
    return next(each for each in candidates(question)[0] if each.words == words)


def test_it_is_tried_beside_tensor_parallelism_alone(question: Question) -> None:
    found, out = candidates(question)
    without = [each.plan for each in found if each.more == OFF]
    assert {each.tp for each in without} == {2, 4, 8}
    assert {str(e.reason) for e in out if "sp off" in e.words and "dp 8" in e.words} == {
        "With tp 1 no rank shares a sequence with others that way."
    }
    assert not [e for e in candidates(asked(model="llama-3.2-1b", seq=1024))[0] if e.more]


def test_beside_experts_it_is_out_with_their_number() -> None:
    _, out = candidates(asked(model="qwen3-30b-a3b", devices="8", sp="off"))
    (reason,) = {str(e.reason) for e in out if "tp 2" in e.words and "ep 4, " in e.words} - {
        str(e.reason) for e in out if "sp off" not in e.words
    }
    assert reason == "With ep 4 the 2 ranks of tp would send the same tokens to the experts."


def test_without_it_more_is_held_and_sent(question: Question) -> None:
    """What both norms read is whole on each rank: 2 tensors of 2 bytes a feature, not a quarter."""
    on, off = (
        _named(question, f"dp 2, tp 4, fsdp full, microbatch 1{e}") for e in ("", ", sp off")
    )
    with_it, without = score(question, [on, off]).estimate_bytes
    size = question.size
    assert without - with_it == pytest.approx(1024 * size.layers * size.hidden * 4 * 3 / 4)
    assert message_bytes(question, off) == 4 * message_bytes(question, on)


@pytest.mark.slow
def test_a_block_sums_where_it_gathered_and_scattered(question: Question) -> None:
    """As many bytes over the links, in fewer operators: the host has less to do."""
    on, off = (_named(question, f"tp 8, microbatch 1{each}") for each in ("", ", sp off"))
    tables = Tables(question)
    with_it, without = tables.of(on), tables.of(off)
    assert without.host.both_s < with_it.host.both_s
    assert without.kept.block > with_it.kept.block
    assert without.forward_s == pytest.approx(with_it.forward_s, rel=0.5)
