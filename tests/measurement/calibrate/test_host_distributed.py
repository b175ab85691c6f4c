"""What torch.distributed's Python takes, fitted to programs whose answer is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuscope.hardware import calibration_for, device
from gpuscope.measurement.bench.types import Point
from gpuscope.measurement.calibrate import host_distributed
from gpuscope.measurement.calibrate.host_distributed import CONSTANT, distributed_entry
from gpuscope.measurement.calibrate.host_terms import PYTHON
from gpuscope.program.types import Op, Program

H200 = device("h200")
CATALOGUE = calibration_for(H200)
SLOW = replace(
    CATALOGUE,
    entries=tuple(
        (name, replace(entry, value=7 * entry.value) if name == CONSTANT else entry)
        for name, entry in CATALOGUE.entries
    ),
)
"""As this host's other constants may have scaled it."""

COUNT = 40_000


def _points(**seconds: float) -> list[Point]:
    return [
        Point(
            "host",
            "sharded",
            dict(zip(("name", "variant"), key.split("__"), strict=True)),
            "host",
            value,
        )
        for key, value in seconds.items()
    ]


def _programs() -> list[tuple[str, Program]]:
    """One operator a pass, and for the sharded one Python of torch.distributed before it."""
    passes = (Op(0, "aten::mm"), Op(1, "aten::mm", phase="backward"))
    apart = tuple(replace(op, python_instructions=COUNT, distributed=True) for op in passes)
    return [("whole", Program("whole", passes)), ("fully_sharded", Program("sharded", apart))]


def test_the_instruction_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_distributed, "sharded_programs", _programs)
    points = _points(
        whole__grad=1e-3,
        whole__backward=2e-3,
        fully_sharded__grad=1e-3 + COUNT * 4e-8,
        fully_sharded__backward=2e-3 + COUNT * 6e-8,
    )
    entry = distributed_entry(points, CATALOGUE, CATALOGUE)
    assert entry is not None
    assert entry.value == pytest.approx(5e-8)
    assert (entry.low, entry.high) == pytest.approx((4e-8, 6e-8))
    assert entry.origin == "calibrated"


def test_without_its_programs_it_goes_with_plain_python() -> None:
    twice = [
        Point("host", "python", {"name": name, "variant": "per_iteration"}, "host", 2 * seconds)
        for name, seconds in PYTHON.items()
    ]
    entry = distributed_entry(twice, SLOW, CATALOGUE)
    assert entry is not None
    assert entry.value == pytest.approx(2 * CATALOGUE.value(CONSTANT))
    assert distributed_entry([], CATALOGUE, CATALOGUE) is None


def test_an_instruction_of_it_is_dearer_than_plain_pythons() -> None:
    entry = CATALOGUE.entry(CONSTANT)
    assert entry.low > 1.5 * host_distributed.INSTRUCTION_S
    assert entry.low < entry.value < entry.high


def test_the_made_up_programs_run_it() -> None:
    """Whole: none; cut or sharded: much, and most of it in passes."""
    found = {}
    for name, program in host_distributed.sharded_programs():
        found[name] = sum(
            op.python_instructions
            for op in program.ops
            if op.distributed and op.phase != "optimizer"
        )
    assert found["whole"] == 0
    assert found["sequence_parallel"] > found["tensor_parallel"] > found["fully_sharded"] > 50_000
