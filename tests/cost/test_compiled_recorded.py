"""The compiled program that is predicted for GPT-2 beside the one that an H200 ran."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest

from gpuscope.cost.engine import cost_program
from gpuscope.cost.types import Kernel
from gpuscope.hardware import device
from gpuscope.program.fusion import fuse
from gpuscope.program.workload import WorkloadOptions, resolve

pytest.importorskip("torch")
pytest.importorskip("transformers")

RECORDED = (
    Path(__file__).resolve().parents[2] / "validation/recordings/h200/zoo/gpt2-compiled.csv.gz"
)


@pytest.fixture(scope="module")
def predicted() -> list[Kernel]:
    from gpuscope.program.fold import capture_workload

    options = WorkloadOptions(
        task="train", batch=8, seq=1024, dtype="bfloat16", amp=True, compile="default"
    )
    costed = cost_program(fuse(capture_workload(resolve("gpt2", options))), device("h200"))
    return [kernel for op in costed.ops for kernel in op.kernels]


@pytest.fixture(scope="module")
def recorded() -> list[tuple[str, float, str]]:
    if not RECORDED.exists():
        pytest.skip("the recordings are not here")
    with gzip.open(RECORDED, "rt") as file:
        return [(r["kernel"], float(r["duration_us"]), r["grid"]) for r in csv.DictReader(file)]


@pytest.mark.parametrize("kind", ["poi", "per", "red"])
def test_as_many_kernels_are_generated(
    kind: str, predicted: list[Kernel], recorded: list[tuple[str, float, str]]
) -> None:
    begin = f"triton_{kind}_"
    ours = sum(k.name.startswith(begin) for k in predicted)
    theirs = sum(name.startswith(begin) for name, _, _ in recorded)
    assert ours == pytest.approx(theirs, rel=0.05)


def test_they_take_as_long_together(
    predicted: list[Kernel], recorded: list[tuple[str, float, str]]
) -> None:
    ours = sum(k.duration_s for k in predicted if k.name.startswith("triton_"))
    theirs = sum(us for name, us, _ in recorded if name.startswith("triton_")) * 1e-6
    assert ours == pytest.approx(theirs, rel=0.12)


def test_the_same_weights_are_summed_up_and_the_same_zeros_filled(
    predicted: list[Kernel], recorded: list[tuple[str, float, str]]
) -> None:
    sums = [name for name, _, _ in recorded if "reduce_kernel" in name]
    assert sum(k.name == "reduce_sum" for k in predicted) == len(sums) == 50
    fills = [us for name, us, _ in recorded if "FillFunctor" in name and us > 100]
    ours = [k.duration_s * 1e6 for k in predicted if "fill" in k.name and k.duration_s > 1e-4]
    assert len(ours) == len(fills) == 1
    assert ours[0] == pytest.approx(fills[0], rel=0.1)
