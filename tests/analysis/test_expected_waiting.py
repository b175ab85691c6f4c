"""Waiting in collectives told by one rank: held against what all ranks' recordings say."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from rank_builder import RankBuilder

from gpuscope.advice.forecast.from_recording import advise_run
from gpuscope.analysis.collective_calls import communication_calls
from gpuscope.analysis.expected_waiting import expected_ns
from gpuscope.cost.collective.model import alone_s
from gpuscope.cost.registry import Constants
from gpuscope.explanation.collective_case import make_case
from gpuscope.hardware import calibration_for, device
from gpuscope.loading import load
from gpuscope.run import Run

TRACES = Path(__file__).parents[1] / "data" / "traces"
ONE_OF_EIGHT = TRACES / "8xh200" / "tensor_parallel_one_rank"


@cache
def one_of_eight() -> Run:
    return load(ONE_OF_EIGHT)


def test_a_collective_should_take_what_explain_says_of_it() -> None:
    case = make_case("all_reduce", "16MiB", "8xh200", "bf16")
    h200 = device("h200")
    found = alone_s(h200, Constants(calibration_for(h200)), "all_reduce", 16 << 20, range(8))
    assert found is not None
    assert found == pytest.approx((case.taken.time_s, case.interval_s[1]))


def test_all_reduces_that_take_seventeen_times_as_long_wait() -> None:
    """They were called communication, 86 % of the step, to be sent less of."""
    run = one_of_eight()
    talk = run.analysis.communication
    assert talk is not None
    (reduces,) = (sort for sort in talk.sorts if sort.name == "all_reduce")
    assert reduces.expected_s == pytest.approx(95.6e-6, rel=0.01)
    assert reduces.waiting_s == pytest.approx(reduces.time_s - 64 * 95.6e-6, rel=0.01)
    assert reduces.bus_bytes_per_s is not None
    assert reduces.bus_bytes_per_s < 30e9  # of the shortest call, not of the expected time
    classes = {share.label: share.time_s for share in run.analysis.classes}
    assert classes["communication: waiting for another rank"] > 0.75 * run.step_time_s
    assert sum(classes.values()) == pytest.approx(run.analysis.step_s, rel=1e-9)
    kinds = [finding.kind for finding in run.analysis.findings]
    assert kinds[0] == "collective_waiting"
    assert "communication_bound" not in kinds


def test_what_the_host_did_meanwhile_leads_the_advice() -> None:
    """The bound on CUDA graphs was 1.07: as if only the idle device waited for a host."""
    run = one_of_eight()
    finding = run.analysis.findings[0]
    assert finding.max_gain_s == pytest.approx(110e-3, rel=0.01)
    assert "88 % of the time working" in finding.evidence
    assert "hosts" in finding.hint
    graph = next(f for f in advise_run(run).singles if f.names == ("cuda-graph",))
    # 137 ms; alone the same program needs 60 ms of one device, of which eight have an eighth each.
    assert graph.high is not None
    assert 3 < graph.high < 6


@pytest.mark.parametrize(
    "name", ["ddp_balanced", "ddp_imbalance", "ddp_slow_host", "fsdp", "tensor_parallel_host_bound"]
)
def test_one_rank_tells_what_all_ranks_tell(name: str) -> None:
    """All ranks' recordings tell waiting from transfer for sure; one rank says the same of itself.

    All ranks' figures are of the whole recording, one rank's of its marked steps, and what is not
    matched or has no size is missing here or there: hence the tolerance.
    """
    folder = TRACES / "4xh200" / name
    together = load(folder).analysis.ranks
    assert together is not None
    for share in together.ranks:
        talk = load(folder, ranks={share.rank}).analysis.communication
        assert talk is not None
        assert talk.waiting is not None
        true_s = share.exposed_waiting_s / together.steps
        assert talk.waiting.exposed_s == pytest.approx(true_s, rel=0.2, abs=0.25e-3)


def test_a_slower_link_than_the_catalogues_is_not_called_waiting() -> None:
    """Time that grows with the bytes is transfer, whatever the link should reach."""
    megabytes, slow = (1, 4, 16, 64), 4e-9  # 4 ns a byte: a tenth of what PCIe gives
    b = RankBuilder()
    at = 0.0
    for size in megabytes:
        took_us = size * 2**20 * slow * 1e6
        b.meet({0: at}, took_us, members=(0, 1), elements=size * 2**20 // 2, dtype="bfloat16")
        at += took_us + 10
    timeline = b.timeline()
    expected, _ = expected_ns(timeline, communication_calls(timeline), device("h200"))
    assert (expected == -1).all()
