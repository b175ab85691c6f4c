"""One process of a job, and what several of them do."""

from __future__ import annotations

import pytest

from gpuscope.errors import InvalidValueError
from gpuscope.program.types import Program
from gpuscope.program.world import RankPrograms, World


def test_environment_is_that_of_torchrun() -> None:
    found = World(size=12, rank=9, local_size=8).environment()
    assert found["RANK"] == "9"
    assert found["LOCAL_RANK"] == "1"
    assert found["GROUP_RANK"] == "1"
    assert found["LOCAL_WORLD_SIZE"] == "4"
    assert found["GROUP_WORLD_SIZE"] == "2"


@pytest.mark.parametrize("wrong", [{"size": 0}, {"size": 2, "rank": 2}, {"rank": -1}])
def test_impossible_jobs_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidValueError):
        World(**wrong)


def test_ranks_find_their_program() -> None:
    first, last = Program("a", (), rank=0), Program("b", (), rank=3)
    ranks = RankPrograms((first, last), ((0, 1, 2), (3,)))
    assert ranks.world_size == 4
    assert not ranks.equal
    assert ranks.of(2) is first
    assert ranks.of(3) is last
    with pytest.raises(InvalidValueError):
        ranks.of(4)
