"""Collectives recorded on 2 and 4 H200s against the model."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from gpuscope.cost.collective.ways import (
    all_reduce_s,
    all_to_all_s,
    broadcast_s,
    gather_s,
    group_of,
    reduce_scatter_s,
    tuning_of,
)
from gpuscope.cost.registry import Constants
from gpuscope.hardware import calibration_for, device, parse_target

ROOT = Path(__file__).resolve().parents[3]
FILE = ROOT / "validation" / "recordings" / "h200" / "collectives-4.jsonl"
CLUSTER = parse_target("8xh200")
TIMES: dict[str, Callable[..., float]] = {
    "all_reduce": all_reduce_s,
    "all_gather": gather_s,
    "reduce_scatter": reduce_scatter_s,
    "all_to_all": all_to_all_s,
    "broadcast": broadcast_s,
    "reduce": broadcast_s,
}


@pytest.fixture(scope="module")
def measured() -> dict[tuple[str, int], list[tuple[int, float]]]:
    """Seconds by bytes, of each collective and group size, the device alone timed."""
    found = defaultdict(list)
    for line in FILE.read_text().splitlines():
        row = json.loads(line)
        if row["bench"] == "collectives" and row.get("state") == "queued":
            found[row["operation"], row["ranks"]].append((row["bytes"], median(row["seconds"])))
    return dict(found)


GAP_S = 2.0e-6
"""From one kernel's end to the next one's start in a queued loop (overlap-2.jsonl)."""


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("operation", list(TIMES))
def test_the_model_is_near_what_was_recorded(measured, operation: str, ranks: int) -> None:
    """Half of the sizes were fitted (benchmarks/fit/collectives.py); NVLS was off."""
    tuning = replace(tuning_of(Constants(calibration_for(device("h200")))), nvls=False)
    group = group_of(CLUSTER, ranks)
    points = measured[operation, ranks]
    assert len(points) == 11  # 1 KiB to 1 GiB
    errors = [
        abs((TIMES[operation](group, size, tuning) + GAP_S) / s - 1) for size, s in sorted(points)
    ]
    assert median(errors) < 0.12
    assert max(errors[-4:]) < 0.22  # from 16 MiB on
    assert max(errors) < 0.5


def test_more_bytes_take_longer(measured) -> None:
    for (operation, _), points in measured.items():
        if operation == "send_recv":  # NCCL takes more channels from 4 MiB on: faster than 1 MiB
            continue
        times = [seconds for size, seconds in sorted(points) if size >= 1 << 20]
        assert times == sorted(times)
