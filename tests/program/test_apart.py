"""One rank taken apart: sorts of ranks, groups and peers by hand."""

from __future__ import annotations

import pytest

from gpuscope.errors import InvalidValueError, UnsupportedError
from gpuscope.program.apart import apart
from gpuscope.program.types import MeshDimension, Op, ProcessGroup, Program
from gpuscope.program.world import RankPrograms

MESH = (MeshDimension("dp", 2), MeshDimension("tp", 4))
GROUPS = (
    ProcessGroup("1", "dp", (0, 4)),
    ProcessGroup("2", "tp", (0, 1, 2, 3)),
    ProcessGroup("0", "world", tuple(range(8))),
)


def job(**fields) -> RankPrograms:
    ops = (Op(0, "c10d::send", group=1, peer=1),)
    made = Program("p", ops, world_size=8, groups=GROUPS, mesh=MESH)
    return RankPrograms((made,), (tuple(range(8)),))


def test_a_mesh_of_two_dimensions_gives_four_sorts():
    found = apart(job(), 5)
    assert found.members == ((5,), (4, 6, 7), (1,), (0, 2, 3))
    assert [p.rank for p in found.programs] == [5, 6, 1, 2]
    assert found.world_size == 8


def test_groups_and_peers_are_those_of_the_place():
    groups = [[g.ranks for g in p.groups] for p in apart(job(), 5).programs]
    world = tuple(range(8))
    assert groups == [
        [(1, 5), (4, 5, 6, 7), world],
        [(2, 6), (4, 5, 6, 7), world],
        [(1, 5), (0, 1, 2, 3), world],
        [(2, 6), (0, 1, 2, 3), world],
    ]
    assert [p.ops[0].peer for p in apart(job(), 5).programs] == [6, 7, 2, 3]


def test_without_a_mesh_it_is_one_against_the_others():
    plain = Program("p", (), world_size=4, groups=(ProcessGroup("0", "world", (0, 1, 2, 3)),))
    found = apart(RankPrograms((plain,), ((0, 1, 2, 3),)), 2)
    assert found.members == ((2,), (0, 1, 3))


def test_a_group_that_is_no_row_of_the_mesh_is_refused():
    odd = Program("p", (), world_size=8, groups=(ProcessGroup("0", "", (0, 1)),), mesh=MESH)
    with pytest.raises(UnsupportedError, match="no row"):
        apart(RankPrograms((odd,), (tuple(range(8)),)), 5)


def test_wrong_input():
    with pytest.raises(InvalidValueError, match="no rank 8"):
        apart(job(), 8)
    one = Program("p", (), world_size=2)
    with pytest.raises(UnsupportedError):
        apart(RankPrograms((one, one), ((0,), (1,))), 0)
