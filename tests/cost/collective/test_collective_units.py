"""Multiprocessors that collectives hold, against kernels that were recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuscope.cost.collective.messages import pair_way
from gpuscope.cost.collective.units import units_taken
from gpuscope.cost.collective.ways import NCCL, chosen, group_of
from gpuscope.hardware import device, parse_target

FILE = Path(__file__).resolve().parents[3] / "validation/recordings/h200/overlap-2.jsonl"
PAIR = group_of(parse_target("8xh200"), 2)
H200 = device("h200")


@pytest.mark.parametrize("operation", ["all_reduce", "all_gather", "reduce_scatter"])
def test_rings_hold_what_was_recorded(operation: str) -> None:
    """NCCL 2.28 on two H200s: 1 block for 8 KiB, 8 for 64 KiB, 24 from 1 MiB on."""
    seen = 0
    for line in FILE.read_text().splitlines():
        row = json.loads(line)
        if row["part"] != "alone" or row["operation"] != operation or not row["grid"]:
            continue
        way = chosen(operation, PAIR, row["bytes"])
        taken = units_taken(way, PAIR, H200)
        assert taken / 2 <= row["grid"] <= taken * 2 + 1, row["bytes"]
        if row["bytes"] >= 1 << 20:
            assert taken == row["grid"]
        seen += 1
    assert seen == 10


@pytest.mark.parametrize("operation", ["all_to_all", "send_recv"])
def test_pairs_hold_what_was_recorded(operation: str) -> None:
    for line in FILE.read_text().splitlines():
        row = json.loads(line)
        if row["part"] != "alone" or row["operation"] != operation or row["bytes"] < 1 << 16:
            continue
        way = (
            chosen("all_to_all", PAIR, row["bytes"])
            if operation == "all_to_all"
            else pair_way(PAIR, row["bytes"], NCCL)
        )
        taken = units_taken(way, PAIR, H200)
        assert taken / 2 <= row["grid"] <= 2 * taken + 1, row["bytes"]


def test_engines_hold_none() -> None:
    torus = parse_target("64xtpu-v5p")
    group = group_of(torus, 64)
    assert units_taken(chosen("all_gather", group, 1e9), group, torus.device) == 0


def test_more_bytes_never_hold_fewer() -> None:
    group = group_of(parse_target("8xh100"), 8)
    held = [units_taken(chosen("all_gather", group, 2.0**n), group, H200) for n in range(10, 16)]
    assert held == sorted(held)
    assert held[0] == 1
