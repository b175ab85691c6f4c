"""Every invariant over predicted jobs of many ranks."""

from __future__ import annotations

from pathlib import Path

import pytest
from outputs import JOBS, checked, job, told

from gpuscope import api
from gpuscope.run import Run
from sweeps import sweep

EXAMPLE = Path(__file__).parents[2] / "examples" / "fsdp_tp.py"


@pytest.mark.parametrize("name", sweep(JOBS, "tp and dp", "two nodes", "folded pipeline"))
def test_a_job(name: str) -> None:
    found = checked(job, name)
    assert told(found) == ""
    assert found.count > 400


def test_the_example(tmp_path: Path) -> None:
    """FSDP2 and tensor parallelism as a user wrote them, with fewer layers."""
    source = EXAMPLE.read_text("utf-8").replace(
        "= 32, 4096, 32, 8, 14336", "= 1, 4096, 32, 8, 14336"
    )
    assert source != EXAMPLE.read_text("utf-8")
    short = tmp_path / "fsdp_tp.py"
    short.write_text(source, "utf-8")

    def example(path: Path) -> Run:
        return api.predict(f"{path}:build", "4xh200")

    assert told(checked(example, short)) == ""
