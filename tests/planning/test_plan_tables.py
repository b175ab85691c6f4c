"""Steps composed of what blocks cost, against recordings and against the simulator."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made import asked

from gpuscope.capturing import _size_name
from gpuscope.planning.composed import composed_s
from gpuscope.planning.simulate import Simulator
from gpuscope.planning.space import candidates
from gpuscope.planning.tables import Tables, grown
from gpuscope.planning.types import Candidate, Question
from gpuscope.program.models.parallel.size import Window
from gpuscope.program.types import Program


def _named(question: Question, words: str) -> Candidate:
    return next(each for each in candidates(question)[0] if each.words == words)


@pytest.fixture(scope="module")
def question() -> Question:
    small = asked(model="gpt2", seq=512, devices="2", global_batch=32)
    return replace(small, size=small.size.deep(4))


def _equal(made: Program | None, real: Program) -> None:
    """Whether two programs have the same operators on the same tensors."""
    assert made is not None
    for mine, other in zip(made.ops, real.ops, strict=True):
        assert (mine.name, mine.inputs, mine.outputs) == (other.name, other.inputs, other.outputs)
    assert [s.nbytes for s in made.storages] == [s.nbytes for s in real.storages]


def test_a_program_for_more_sequences_follows_from_two(question: Question) -> None:
    tables = Tables(question)
    one, two, four = (tables._record((1, 1, 1, ()), n) for n in (1, 2, 4))
    _equal(grown((1, one), (2, two), 4), four)
    _equal(grown((2, two), (4, four), 1), one)
    # Another split has other operators: nothing follows from the two.
    assert grown((1, one), (2, tables._record((2, 1, 1, ()), 2)), 4) is None
    # There are no half bytes.
    half = tuple(replace(s, nbytes=s.nbytes + 1) for s in four.storages)
    assert grown((2, two), (4, replace(four, storages=half)), 3) is None


def test_where_one_sequence_differs_all_others_follow_from_two_and_four(
    question: Question, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = Tables(question)
    split, asked_for = (2, 1, 1, ()), list[int]()
    recorded = {n: tables._record(split, n) for n in (1, 2, 4, 8)}
    assert grown((1, recorded[1]), (2, recorded[2]), 8) is None

    def record(split: object, sequences: int) -> Program:
        asked_for.append(sequences)
        return recorded[sequences]

    monkeypatch.setattr(tables, "_record", record)
    _equal(tables._program(split, 8), recorded[8])
    assert set(asked_for) == {1, 2, 4}


@pytest.mark.slow
def test_composed_steps_are_close_to_simulated_ones_and_in_their_order() -> None:
    question = asked(model="llama-3.2-1b", devices="8", seq=4096, global_batch=16)
    tables, simulator = Tables(question), Simulator(question)
    found = [
        _named(question, words)
        for words in (
            "dp 8, fsdp full, microbatch 2",
            "dp 8, fsdp zero2, microbatch 1",
            "dp 8, fsdp none, microbatch 1",
        )
    ]
    quick = [composed_s(question, each, tables.of(each)) for each in found]
    exact = [simulator.judge(each, 0.0).step_s for each in found]
    assert quick == pytest.approx(exact, rel=0.06)
    by_quick = sorted(range(3), key=quick.__getitem__)
    assert by_quick == sorted(range(3), key=exact.__getitem__)


def test_what_is_computed_again_costs_time(question: Question) -> None:
    tables = Tables(question)
    names = ("", ", recompute selective", ", recompute full")
    found = [_named(question, f"dp 2, fsdp full, microbatch 2{more}") for more in names]
    none, some, all_ = (composed_s(question, each, tables.of(each)) for each in found)
    # The host sets the pace: full recomputation issues the forward pass again, selective has each
    # of its operators pass Python's dispatch besides (recorded: 1.6 and 2.7 times as much).
    assert none < all_ < 1.7 * none
    assert all_ < some < 2.8 * none
    block = tables.of(found[0])
    assert 0 < block.again_s["selective"] < block.again_s["full"] < block.forward_s


def test_equal_sizes_are_kept_by_one_name(question: Question) -> None:
    size = question.size
    assert _size_name(size.deep(2)) == _size_name(replace(size.deep(2)))
    assert _size_name(size.deep(2)) != _size_name(size.deep(3))
    assert _size_name(size) != _size_name(replace(size, ffn=size.ffn + 1))


def test_blocks_of_several_kinds_are_priced_each(question: Question) -> None:
    """Of four blocks two look back 64 tokens: the mean is theirs, and that of the other two."""
    near = Window(tokens=64, every=2)
    mixed, alike = (
        replace(question, seq=1024, size=replace(question.size, window=window))
        for window in (near, replace(near, every=0))
    )
    assert Tables(mixed).kinds == {"layers.0": 2, "layers.1": 2}
    assert Tables(alike).kinds == {"layers.0": 4}
    whole = replace(question, seq=1024)
    blocks = [Tables(q).of(candidates(q)[0][0]) for q in (whole, mixed, alike)]
    far_s, both_s, near_s = (block.forward_s for block in blocks)
    assert near_s < far_s
    assert both_s == pytest.approx((far_s + near_s) / 2, rel=1e-6)
