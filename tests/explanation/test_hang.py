"""Who holds the others up: hand-made hangs with a known culprit, and real ones."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from dumps_made import calls, entry, p2p, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuscope.explanation.flight_recorder.dump import Dumps, dumps_of, read_dumps
from gpuscope.explanation.flight_recorder.groups import group_states
from gpuscope.explanation.flight_recorder.hang import Verdict, judge, span
from gpuscope.explanation.flight_recorder.pairs import judge_pairs

DATA = Path("tests/data/errors/flight_recorder")


def _judged(folder: Path, read: Callable[[Path], Dumps] = dumps_of) -> Verdict:
    dumps = read(folder)
    verdict = judge(group_states(dumps), dumps)
    assert verdict is not None
    return verdict


def test_real_hangs_over_gloo() -> None:
    missing = _judged(DATA / "rank_missing", read_dumps)
    assert (missing.kind, missing.culprits, missing.sequence) == ("absent", (2,), 4)
    parted = _judged(DATA / "ranks_parted")
    assert (parted.kind, parted.culprits, parted.sequence) == ("parted", (1,), 4)


def test_a_real_hang_over_nccl() -> None:
    """Two H200: rank 1 has not yet called the fourth all_reduce, which rank 0 waits in."""
    verdict = _judged(DATA / "nccl")
    assert (verdict.kind, verdict.culprits, verdict.sequence) == ("absent", (1,), 4)


@pytest.mark.parametrize(
    ("states", "kind", "culprits"),
    [
        (("ccb", "cc", "ccb"), "absent", (1,)),
        (("ccb", "", "ccb"), "absent", (1,)),
        (("ccb", "ccs", "ccb"), "unstarted", (1,)),
        (("ccs", "ccs", "ccs"), "queued", ()),
        (("ccb", "ccb", "ccb"), "unfinished", ()),
        (("ccc", "ccc", "ccb"), "uneven", (2,)),
        (("ccb", "ccb"), "undumped", (2,)),
    ],
)
def test_the_states_tell_who(
    tmp_path: Path, states: tuple[str, ...], kind: str, culprits: tuple[int, ...]
) -> None:
    ranks = {rank: calls(told) for rank, told in enumerate(states)}
    verdict = _judged(write(tmp_path, ranks, 3))
    assert (verdict.kind, verdict.culprits, verdict.sequence) == (kind, culprits, 3)


def test_without_timing_nothing_is_said_of_the_beginning(tmp_path: Path) -> None:
    """NCCL records no event at the beginning unless TORCH_NCCL_ENABLE_TIMING is set."""
    none = {"time_discovered_started_ns": None}
    kinds = {"unended": ("cs", "cs"), "uneven": ("cs", "cc"), "absent": ("cs", "c")}
    for kind, states in kinds.items():
        ranks = {rank: calls(told, **none) for rank, told in enumerate(states)}
        assert _judged(write(tmp_path / kind, ranks, 2)).kind == kind
    assert _judged(tmp_path / "uneven").culprits == (0,)


def test_other_sizes_or_dtypes_at_one_number_part_the_ranks(tmp_path: Path) -> None:
    for name, other in (
        ("sizes", {"input_sizes": [[8, 5]]}),
        ("dtype", {"input_dtypes": ["Half"]}),
    ):
        odd = [entry(1, "completed"), entry(2, "started", **other)]
        folder = write(tmp_path / name, {0: calls("cb"), 1: calls("cb"), 2: odd}, 3)
        verdict = _judged(folder)
        assert (verdict.kind, verdict.culprits, verdict.sequence) == ("parted", (2,), 2)


def test_sizes_may_differ_where_they_may(tmp_path: Path) -> None:
    ranks = {
        rank: [entry(1, "started", profiling_name="nccl:all_to_all", input_sizes=[[4 + rank]])]
        for rank in range(2)
    }
    assert _judged(write(tmp_path, ranks, 2)).kind == "unfinished"


def test_all_ended_is_no_hang_even_where_one_forgot_the_old_ones(tmp_path: Path) -> None:
    for ranks in (
        {0: calls("ccc"), 1: calls("ccc")},
        {0: calls("ccc"), 1: calls("ccc")[2:]},
        {0: calls("ccc"), 1: []},
    ):
        dumps = dumps_of(write(tmp_path, ranks, 2))
        assert judge(group_states(dumps), dumps) is None


def test_the_root_is_in_the_group_whose_missing_rank_waits_nowhere(tmp_path: Path) -> None:
    """Rank 1 is missing in group a because it waits in group b, for rank 2, which is nowhere."""
    a, b = {"process_group": ("a", "x")}, {"process_group": ("b", "y")}
    ranks = {0: calls("cb", **a), 1: calls("c", **a) + calls("cb", **b), 2: calls("c", **b)}
    verdict = _judged(write(tmp_path, ranks, 3, groups={"a": "[0, 1]", "b": "[1, 2]"}))
    assert verdict.culprits == (2,)
    assert verdict.group is not None
    assert verdict.group.group.name == "b"


def test_a_receive_without_its_send(tmp_path: Path) -> None:
    """1 waits for 0, and 0 for 2 (ranks 10, 11, 12 of the world): 2 is the root."""
    ranks = {10: [p2p(1, "recv 0<-2")], 11: [p2p(1, "recv 1<-0")], 12: calls("c")}
    dumps = dumps_of(write(tmp_path, ranks, 3, groups={"0": "[10, 11, 12]"}))
    judged = judge_pairs(dumps)
    assert judged is not None
    assert judged[0].culprits == (12,)
    assert list(judged[1]) == [10]


def test_a_send_with_its_receive_is_not_alone(tmp_path: Path) -> None:
    ranks = {0: [p2p(1, "send 0->1")], 1: [p2p(1, "recv 1<-0")]}
    assert judge_pairs(dumps_of(write(tmp_path, ranks, 2))) is None


@settings(
    deadline=None, max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_whoever_stops_first_is_found(tmp_path: Path, data: st.DataObject) -> None:
    world = data.draw(st.integers(2, 6))
    culprit = data.draw(st.integers(0, world - 1))
    done = data.draw(st.integers(0, 8))
    ahead = data.draw(st.integers(1, 3))
    ranks = {
        rank: calls("c" * done + ("" if rank == culprit else "b" + "s" * (ahead - 1)))
        for rank in range(world)
    }
    folder = tmp_path / f"{world}_{culprit}_{done}_{ahead}"
    verdict = _judged(write(folder, ranks, world))
    assert (verdict.kind, verdict.culprits, verdict.sequence) == ("absent", (culprit,), done + 1)


def test_ranks_are_named_in_stretches() -> None:
    assert span([3, 0, 1, 2, 7]) == "0-3, 7"
    assert span(range(0, 20, 2), most=3) == "0, 2, 4 +7"
    assert span([]) == ""


def test_many_ranks_are_judged_in_time(tmp_path: Path) -> None:
    """Time grows with the number of entries: 40 ranks of 500 take a fiftieth of 1000 of 1000."""
    ranks = {rank: calls("c" * 499 + "b" * (rank != 17)) for rank in range(40)}
    write(tmp_path, ranks, 40)
    began = time.process_time()
    assert _judged(tmp_path).culprits == (17,)
    assert time.process_time() - began < 5
