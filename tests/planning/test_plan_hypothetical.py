"""Devices that do not exist, and whether the choice moves as they should move it."""

from __future__ import annotations

from collections.abc import Iterator
from math import exp
from statistics import NormalDist
from typing import Any

import pytest
from made import asked, scored_alone

import gpuscope as gs
from gpuscope.document.text import render
from gpuscope.errors import InvalidValueError, UnknownNameError
from gpuscope.planning.search import search
from gpuscope.planning.sentences import bound_to
from gpuscope.planning.serving.steady import SIMULATED_ERROR
from gpuscope.planning.serving.types import ServingPlan
from gpuscope.planning.types import Judged


def test_figures_are_changed_and_named() -> None:
    (cluster,) = asked(device_set="memory=288GB,bandwidth=8TB/s").clusters
    assert cluster.device.memory_bytes == 288e9
    assert cluster.device.memory_bandwidth_bytes_per_s == 8e12
    told = [render(each, "en") for each in bound_to(cluster, [cluster])]
    assert any("does not exist" in line and "2.88e+11" in line for line in told)
    with pytest.raises(UnknownNameError):
        asked(device_set="beauty=3")
    with pytest.raises(InvalidValueError):
        asked(device_set="memory")


def served(bandwidth: float, slo: str) -> ServingPlan:
    given: dict[str, Any] = {"on": "h200", "devices": "1,2", "rate": 2, "answer": "64"}
    return gs.plan(
        "llama-3.1-8b",
        task="serve",
        device_set=f"bandwidth={bandwidth}TB/s",
        slo=slo,
        simulate=4,
        **given,
    )


def test_the_choice_moves_with_bandwidth_where_the_limit_lies_between() -> None:
    """Answers are made at the pace at which weights are read, prompts are not: 10 % of bandwidth is
    some 6 % of TPOT, and a limit that one device just keeps is broken by one with a tenth less."""
    taken = {each: served(4.8 * each, "tpot<60ms").best for each in (0.9, 1.0, 1.1)}
    times = [best.tpot_s for best in taken.values() if best is not None]
    assert len(times) == 3
    assert 1.03 < times[0] / times[1] < 1 / 0.9
    assert 1.03 < times[1] / times[2] < 1.1
    room = exp(NormalDist().inv_cdf(0.8) * SIMULATED_ERROR)  # what 80 % sure takes
    limit = f"tpot<{(times[0] * times[1]) ** 0.5 * room * 1e3:.4f}ms"  # between two of the three
    counts = []
    for each in (0.9, 1.0, 1.1):
        best = served(4.8 * each, limit).best
        counts.append(0 if best is None else best.choice.cluster.n_devices)
    assert counts == [2, 1, 1]


@pytest.fixture
def _scored() -> Iterator[None]:
    yield from scored_alone()


def trained(link: float, limit: str | None = None, **more: Any) -> Judged:
    given: dict[str, Any] = {"on": "h100", "devices": "8,16", "global_batch": 8, "seq": 2048}
    links = f"scale_up={450 * link}GB/s"
    return search(asked(**{**given, **more}, goal="cost", device_set=links, limit=limit)).best


@pytest.mark.usefixtures("_scored")
def test_a_training_moves_with_its_links_where_the_limit_lies_between() -> None:
    """Eight devices are the cheaper ones, sixteen the quicker: a limit of time that eight just keep
    is broken by eight whose links have a tenth less, and by none that have a tenth more. Few tokens
    a device, so that what is exchanged counts; a pipeline's bubble is long there."""
    free = [trained(each) for each in (0.9, 1.0, 1.1)]
    steps = [each.step_s for each in free]
    assert [each.candidate.devices for each in free] == [8, 8, 8]
    assert steps[0] > steps[1] > steps[2]
    assert steps[0] / steps[1] < 1 / 0.9
    assert steps[1] / steps[2] < 1.1
    limit = f"time<{(steps[0] * steps[1]) ** 0.5:.9f}s"
    taken = [trained(each, limit).candidate.devices for each in (0.9, 1.0, 1.1)]
    assert taken == [16, 8, 8]


@pytest.mark.usefixtures("_scored")
def test_slow_links_make_a_pipeline_of_one_replica_and_quick_ones_none() -> None:
    """A pipeline exchanges what passes between its stages alone, whatever its links; shared
    parameters are exchanged whole."""
    slow, quick = (
        trained(each, devices="8", global_batch=16, seq=1024).candidate.plan for each in (0.25, 4.0)
    )
    assert (slow.pp, slow.dp * slow.cp) == (8, 1)
    assert quick.pp == 1 < quick.dp
