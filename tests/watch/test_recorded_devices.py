"""Verdicts on what two H200s really did under known loads (recorded by `watch --record`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuscope.watch.recording import read_samples
from gpuscope.watch.verdict import judge

FOLDER = Path(__file__).resolve().parents[1] / "data" / "watch"


@pytest.mark.parametrize(
    ("name", "device", "kind"),
    [
        # large bfloat16 products without a pause: the clock is held at 700 W
        ("h200-x2-products-and-input", 0, "power_limited"),
        # the same, with 120 ms of sleep before each burst
        ("h200-x2-products-and-input", 1, "waiting_for_input"),
        # copies of 1 GiB within device memory
        ("h200-x2-copies-and-small-kernels", 0, "memory_bound"),
        # additions of 64 x 64, one launch after the other
        ("h200-x2-copies-and-small-kernels", 1, "host_bound"),
        # pinned memory over PCIe for half a second, then 100 products, again and again
        ("h200-x2-input-over-pcie", 0, "waiting_for_input"),
        ("h200-x2-input-that-comes-late", 0, "waiting_for_input"),
        ("h200-x2-copies-on-the-device", 0, "memory_bound"),
        ("h200-x2-memory-held", 0, "idle"),
        # an all-reduce without a pause, and one whose other rank comes late
        ("h200-x2-all-reduce", 0, "communication_bound"),
        ("h200-x2-all-reduce", 1, "communication_bound"),
        ("h200-x2-a-rank-that-waits", 0, "communication_bound"),
        ("h200-x2-a-rank-that-waits", 1, "idle"),
    ],
)
def test_the_verdict_names_the_load(name: str, device: int, kind: str) -> None:
    samples = tuple(read_samples(FOLDER / f"{name}.jsonl"))
    assert len(samples) >= 5
    verdict = judge(samples, device)
    assert verdict.kind == kind, verdict.sentence
    assert verdict.sure >= 0.5
