"""Verdicts on what two H200s really did under four known loads (recorded by `watch --record`)."""

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
    ],
)
def test_the_verdict_names_the_load(name: str, device: int, kind: str) -> None:
    samples = tuple(read_samples(FOLDER / f"{name}.jsonl"))
    assert len(samples) >= 5
    verdict = judge(samples, device)
    assert verdict.kind == kind, verdict.sentence.en
    assert verdict.sure >= 0.5
