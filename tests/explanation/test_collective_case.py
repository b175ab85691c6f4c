"""A collective as the user asks for it: spellings, bytes, ranks, links; what cannot be."""

from __future__ import annotations

import pytest

from gpuscope.errors import InvalidValueError, UnknownNameError, UnsupportedError
from gpuscope.explanation.collective_case import make_case
from gpuscope.hardware import parse_target


def test_spellings_and_amounts() -> None:
    case = make_case("All-Reduce", "64MB", "8xh200", "bfloat16")
    assert (case.operation, case.size_bytes, case.elements, case.ranks) == (
        "all_reduce",
        64_000_000,
        32_000_000,
        8,
    )
    assert make_case("allgather", 4096, parse_target("2xh200"), "fp32").operation == "all_gather"
    assert make_case("reducescatter", "4KiB", "2xh200", "tf32").dtype == "fp32"


@pytest.mark.parametrize(
    ("operation", "amount", "on", "dtype", "error", "says"),
    [
        ("reduce_sum", "64MB", "8xh200", "bf16", UnknownNameError, "collective"),
        ("all_reduce", "0B", "8xh200", "bf16", InvalidValueError, "at least one byte"),
        ("all_reduce", -4, "8xh200", "bf16", InvalidValueError, "at least one byte"),
        ("all_reduce", float("nan"), "8xh200", "bf16", InvalidValueError, "at least one byte"),
        ("all_reduce", True, "8xh200", "bf16", InvalidValueError, "no amount"),
        ("all_reduce", "much", "8xh200", "bf16", InvalidValueError, "not a quantity"),
        ("all_reduce", "64GB/s", "8xh200", "bf16", InvalidValueError, "no unit of bytes"),
        ("all_reduce", "64MB", "h200", "bf16", InvalidValueError, "nobody to talk to"),
        ("all_reduce", "1TB", "8xh200", "bf16", InvalidValueError, "does not fit"),
        ("all_reduce", "3B", "8xh200", "bf16", InvalidValueError, "no whole number"),
        ("all_reduce", "64MB", "8xh200", "fp4", UnsupportedError, "not modelled"),
        ("all_reduce", "64MB", "8xh200", "bf17", UnknownNameError, "dtype"),
        ("all_reduce", "64MB", "8xnothing", "bf16", UnknownNameError, "device"),
    ],
)
def test_wrong_input_is_refused_in_words(
    operation: str, amount: str | float, on: str, dtype: str, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        make_case(operation, amount, on, dtype)


def test_bus_bandwidth_is_what_nccl_tests_count() -> None:
    """8 ranks, 8 GB/s of algorithm bandwidth: 14 GB/s for all_reduce, 7 for gathers, 8 else."""
    expected = {
        "all_reduce": 14e9,
        "all_gather": 7e9,
        "reduce_scatter": 7e9,
        "all_to_all": 7e9,
        "broadcast": 8e9,
    }
    for operation, rate in expected.items():
        case = make_case(operation, "64MB", "8xh200", "bf16")
        assert case.bus_bytes_per_s(8e9, 1.0) == pytest.approx(rate)


def test_the_roof_is_the_narrowest_way() -> None:
    assert make_case("all_reduce", "1MB", "8xh200", "bf16").roof_bytes_per_s == 450e9
    assert make_case("all_reduce", "1MB", "2x8xh200", "bf16").roof_bytes_per_s == 8 * 50e9
    # 8 of the 15 parts leave the node by the rank's own port.
    all_to_all = make_case("all_to_all", "1MB", "2x8xh200", "bf16")
    assert all_to_all.roof_bytes_per_s == pytest.approx(50e9 * 15 / 8)


def test_no_collective_is_faster_than_its_roof_but_where_switches_add() -> None:
    for operation in ("all_gather", "reduce_scatter", "all_to_all", "broadcast"):
        for on in ("8xh200", "2x8xh200", "8xmi300x", "8xrtx-4090"):
            case = make_case(operation, "8GB", on, "bf16")
            reached = case.bus_bytes_per_s(case.size_bytes, case.taken.time_s)
            assert reached < case.roof_bytes_per_s


def test_other_ranks() -> None:
    case = make_case("all_reduce", "64MB", "8xh200", "bf16")
    sixteen = case.at(ranks=16)
    assert sixteen is not None
    assert (sixteen.ranks, sixteen.group.domains) == (16, 2)
    assert case.at(ranks=12) is None  # a node and a half
    assert case.at("broadcast") is not None
    assert case.at(ranks=8) is case


def test_origin_is_calibrated_only_where_it_was_measured() -> None:
    assert make_case("all_reduce", "64MB", "8xh200", "bf16").origin == "calibrated"
    assert make_case("broadcast", "64MB", "8xh200", "bf16").origin == "estimated"
    assert make_case("all_reduce", "64MB", "2x8xh200", "bf16").origin == "estimated"
    assert make_case("all_reduce", "64MB", "8xmi300x", "bf16").origin == "estimated"


def test_a_fabric_is_less_sure() -> None:
    inside = make_case("all_reduce", "64MB", "8xh200", "bf16")
    across = make_case("all_reduce", "64MB", "2x8xh200", "bf16")
    ratio = [case.interval_s[1] / case.taken.time_s for case in (inside, across)]
    assert 1 < ratio[0] < ratio[1] == pytest.approx(1 + (0.35**2 + 0.05**2) ** 0.5)
