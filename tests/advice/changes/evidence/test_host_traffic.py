"""Bytes that a step copies from the host, counted by hand."""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from changed_cases import case_of

from gpuscope.advice.changes.evidence.host_traffic import HostTraffic, host_traffic


def _build(pinned: bool, non_blocking: bool):
    def build():
        x = torch.randn(1024, 1024)
        small = torch.randn(16)
        x = x.pin_memory() if pinned else x
        linear = torch.nn.Linear(1024, 4).cuda()

        def step():
            return linear(x.to("cuda", non_blocking=non_blocking)), small.cuda()

        return step

    return build


def test_counts() -> None:
    big, small = 4 * 1024**2, 64
    both = big + small
    assert host_traffic(case_of(_build(False, False))) == HostTraffic(2, both, 0, both)
    assert host_traffic(case_of(_build(True, False))) == HostTraffic(2, small, big, both)
    assert host_traffic(case_of(_build(True, True))) == HostTraffic(2, small, big, small)
    assert host_traffic(case_of(_build(False, True))) == HostTraffic(2, both, 0, both)


def test_nothing_to_copy() -> None:
    def build():
        x = torch.randn(4, device="cuda")
        return lambda: x * 2

    traffic = host_traffic(case_of(build))
    assert traffic.count == traffic.total_bytes == 0
