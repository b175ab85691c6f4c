"""Captures of jobs are tested where PyTorch can stand for one."""

from __future__ import annotations

from pathlib import Path

import pytest

JOBS = {Path(__file__).with_name(name) for name in ("distributed", "parallel", "pipeline")}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without torch's FakeWork (2.6) a job is refused (`distributed/test_without_jobs.py`)."""
    jobs = [item for item in items if JOBS & set(item.path.parents)]
    if not jobs:
        return
    torch = pytest.importorskip("torch")
    if hasattr(torch._C._distributed_c10d, "FakeWork"):
        return
    skip = pytest.mark.skip(reason="this PyTorch (2.6) cannot capture a job of several processes")
    for item in jobs:
        if item.path.name != "test_without_jobs.py":
            item.add_marker(skip)
