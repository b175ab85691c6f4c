"""Calls of distinct ranks that do not agree are named with both lines before the walk."""

from __future__ import annotations

import pytest
from timeline_programs import call, kernel, ranked, recv, send, talk

from gpuscope.errors import HangError
from gpuscope.program.types import ProcessGroup, TensorSpec
from gpuscope.timeline.match import couple

BOTH = ProcessGroup("0", "dp", (0, 1))
EACH = [(0,), (1,)]


def job(*ranks, groups=(BOTH,)):
    return [ranked(ops, rank, groups, len(ranks)) for rank, ops in enumerate(ranks)]


def with_numel(item, numel: int):
    from dataclasses import replace

    spec = TensorSpec((numel,), (1,), "bfloat16", storage=1)
    return replace(item, op=replace(item.op, inputs=(spec,)))


def test_equal_sequences_meet_one_by_one():
    coupling = couple(job([talk(5), talk(6)], [talk(5), call(kernel(1)), talk(6)]), EACH)
    assert coupling.parties == (2,)
    assert [dict(m) for m in coupling.meetings] == [{0: 0, 1: 0}, {0: 1, 2: 1}]
    assert coupling.notes == ()


def test_another_call_at_the_same_place_is_named_with_both_lines():
    first = [talk(5), talk(5, site="train.py:12")]
    second = [talk(5), talk(5, "c10d::broadcast_", site="train.py:40")]
    with pytest.raises(HangError) as caught:
        couple(job(first, second), EACH)
    text = str(caught.value)
    assert "Ranks 0 and 1" in text
    assert "call 2 of a step in group 'dp'" in text
    assert "all_reduce of 4 float32 at train.py:12" in text
    assert "broadcast of 4 float32 at train.py:40" in text


def test_other_sizes_are_an_error():
    with pytest.raises(HangError, match=r"8 bfloat16.*16 bfloat16"):
        couple(job([with_numel(talk(5), 8)], [with_numel(talk(5), 16)]), EACH)


def test_uneven_sorts_may_give_other_sizes():
    name = "_c10d_functional::all_to_all_single"
    couple(job([with_numel(talk(5, name), 8)], [with_numel(talk(5, name), 16)]), EACH)


def test_a_rank_that_does_not_take_part():
    with pytest.raises(HangError, match="Rank 1: makes no such call"):
        couple(job([talk(5, site="a.py:1")], [call(kernel(1))]), EACH)


def test_a_call_too_many():
    with pytest.raises(HangError, match=r"call 2.*Rank 0: makes no such call. Rank 1: all_reduce"):
        couple(job([talk(5)], [talk(5), talk(5)]), EACH)


def test_a_repeated_operator_counts_as_often_as_it_is_called():
    coupling = couple(job([talk(5, repeat=2)], [talk(5), talk(5)]), EACH)
    assert len(coupling.seats[0].calls) == 2


def test_a_send_without_a_receive():
    with pytest.raises(HangError, match="Rank 1: receives nothing there"):
        couple(job([send(5, 1)], [call(kernel(1))]), EACH)


def test_a_receive_without_a_send():
    with pytest.raises(HangError, match="Rank 0: sends nothing there"):
        couple(job([call(kernel(1))], [recv(5, 0)]), EACH)


def test_groups_of_equal_ranks_are_not_coupled():
    wide = ProcessGroup("0", "dp", tuple(range(8)))
    coupling = couple([ranked([talk(5)], 0, (wide,), 8)], [tuple(range(8))])
    assert coupling.seats == ()


def test_ranks_that_the_captured_ones_do_not_name_are_left_free_with_a_note():
    # Rank 0 sends to rank 3, which does as rank 2 was seen to do: nothing with rank 0.
    ranks = [[send(5, 3)], [call(kernel(1))]]
    programs = [ranked(ops, rank, (), 4) for ops, rank in zip(ranks, (0, 2), strict=True)]
    coupling = couple(programs, [(0, 1), (2, 3)])
    assert coupling.seats == ()
    assert len(coupling.notes) == 1
    assert "2" in coupling.notes[0]


def test_one_rank_that_sends_to_two_of_a_class_is_left_free():
    # 1 rank sends twice, each of 2 equal ranks receives once: nobody hangs.
    programs = [ranked([send(5, 1), send(5, 2)], 0, (), 3), ranked([recv(5, 0)], 1, (), 3)]
    assert couple(programs, [(0,), (1, 2)]).seats == ()


def test_a_group_has_the_same_name_on_all_its_ranks():
    programs = [
        ranked([talk(5)], 0, (ProcessGroup("3", "pp", (0, 2)),), 4),
        ranked([talk(5)], 3, (ProcessGroup("4", "pp", (1, 3)),), 4),
    ]
    groups = couple(programs, [(0, 1), (2, 3)]).groups
    assert groups[0] == groups[1] == (ProcessGroup("3", "pp", (0, 2)),)
