"""From a machine's constants to how its collectives run."""

from __future__ import annotations

import pytest

from gpuscope.cost.collective.tuning import NCCL, tuning_of
from gpuscope.cost.collective.ways import chosen, group_of, ways
from gpuscope.cost.registry import Constants
from gpuscope.hardware import Calibration, Distance, calibration_for, device, parse_target
from gpuscope.hardware.calibration import CalibratedValue


def measured(values: dict[str, float], origin: str = "calibrated") -> Constants:
    entries = sorted(
        (f"collective.{name}", CalibratedValue(v, "1", origin, v, v)) for name, v in values.items()
    )
    return Constants(Calibration("x", "x", Distance.SAME_DEVICE, "", tuple(entries)))


def test_nothing_measured_is_nccl_s_table() -> None:
    assert tuning_of(measured({})) == NCCL
    assert tuning_of(measured({"LL.base_s": 1.0}, "estimated")) == NCCL  # carried: links differ


def test_a_step_with_a_fence_is_no_shorter_than_one_with_a_flag() -> None:
    """Two and four ranks let a fit put a step's latency into the base: 9.5 ns once came out."""
    tuning = tuning_of(measured({"LL.link_s": 8e-7, "Simple.link_s": 9.5e-9, "LL128.link_s": 2e-6}))
    links = {p.name: p.link_s for p in tuning.protocols}
    assert links == {"LL": 8e-7, "LL128": 2e-6, "Simple": 8e-7}


def test_names_are_read() -> None:
    tuning = tuning_of(
        measured(
            {
                "all_reduce.efficiency_4": 0.8,
                "all_reduce.efficiency_2": 0.6,
                "nvls.enabled": 0.0,
                "nvls.efficiency_8": 0.6,
                "LL.share": 0.4,
                "all_reduce.extra_s": 1e-6,
                "collnet.enabled": 1.0,
                "rate.growth": 0.2,
                "protocols.measured": 1.0,
            }
        )
    )
    assert tuning.shares["all_reduce"] == ((2, 0.6), (4, 0.8))
    assert tuning.share("nvls", 8) == 0.6
    assert (tuning.nvls, tuning.collnet, tuning.tuned) == (False, True, True)
    assert tuning.protocols[0].share == 0.4
    assert tuning.extra_s == {"all_reduce": 1e-6}
    assert tuning.growth == 0.2
    assert tuning.most_ranks("all_reduce") == 4


def test_large_messages_gain_where_it_was_measured_and_never_lose() -> None:
    pair = group_of(parse_target("8xh200"), 2)
    plain, gaining = (
        tuning_of(measured({"all_gather.efficiency_2": 0.5, "rate.growth": g})) for g in (0, 0.2)
    )
    rates = []
    for power in range(20, 33):
        way, faster = (ways("all_gather", pair, 2.0**power, t)[-1] for t in (plain, gaining))
        assert faster.bytes_per_s >= way.bytes_per_s
        rates.append(faster.bytes_per_s)
    assert rates == sorted(rates)
    assert rates[0] == pytest.approx(0.5 * 450e9)
    assert rates[-1] < 0.82 * 450e9


def test_more_ranks_than_were_measured_lie_between_measurement_and_table() -> None:
    tuning = tuning_of(
        measured(
            {
                "LL.link_s": 5e-7,
                "Simple.link_s": 1e-6,
                "nvls.enabled": 0,
                "all_reduce.efficiency_8": 0.8,
            }
        )
    )
    group = group_of(parse_target("72xgb200"), 72)
    simple = ways("all_reduce", group, 1e9, tuning)[-1]
    assert 1e-6 < simple.link_s < 3.4e-6
    inside = ways("all_reduce", group_of(parse_target("72xgb200"), 8), 1e9, tuning)[-1]
    assert inside.link_s == 1e-6


def test_every_shipped_calibration_gives_sane_times() -> None:
    for name in ("a100", "h100", "h200", "b200", "b300", "gb200", "gb300"):
        tuning = tuning_of(Constants(calibration_for(device(name))))
        group = group_of(parse_target(f"4x{name}"), 4)
        for operation in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"):
            small, large = (chosen(operation, group, s, tuning).time_s for s in (1e4, 1e9))
            assert 3e-6 < small < 4e-5
            assert 0.2 < 1e9 / large / group.link_bytes_per_s < 1.1, (name, operation)
