"""The memory of a small step whose bytes are known, and figures that follow from it."""

from __future__ import annotations

import numpy as np
import pytest

from gpuscope.errors import InvalidValueError
from gpuscope.explanation.memory_case import MemoryCase, make_case
from gpuscope.explanation.memory_changes import changes
from gpuscope.explanation.memory_figures import (
    at_peak,
    change_table,
    formulas,
    holders,
    on_devices,
    over_the_step,
)
from gpuscope.program.workload import WorkloadOptions

torch = pytest.importorskip("torch")

WEIGHTS = 512 * 512 + 512


def build():  # type: ignore[no-untyped-def]
    model = torch.nn.Linear(512, 512).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    x = torch.randn(64, 512, device="cuda")

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(x).sum().backward()
        optimizer.step()

    return step


@pytest.fixture(scope="module")
def case() -> MemoryCase:
    return make_case(build, "h200", WorkloadOptions())


@pytest.fixture(scope="module")
def small() -> MemoryCase:
    options = WorkloadOptions(task="train", layers=1, seq=512, batch=4)
    return make_case("gpt2", "h200", options)


def test_formulas_by_hand(case: MemoryCase) -> None:
    rows = {row[0]: row for row in formulas(case).rows}  # type: ignore[union-attr]
    assert rows["parameters"][1:3] == ("262,656 x 4 B", WEIGHTS * 4)
    assert rows["gradients"][2] == WEIGHTS * 4
    assert rows["optimizer states"][1] == "2 (exp_avg, exp_avg_sq) x 262,656 x 4 B"
    assert rows["optimizer states"][2] == 2 * WEIGHTS * 4
    for name in ("parameters", "gradients", "optimizer states"):
        assert rows[name][3] == pytest.approx(rows[name][2], rel=0.01)


def test_the_cache_s_formula(small: MemoryCase) -> None:
    decode = make_case("gpt2", "h200", WorkloadOptions(task="decode", layers=2, context=100))
    row = next(r for r in formulas(decode).rows if r[0] == "key-value cache")  # type: ignore[union-attr]
    assert row[2] == pytest.approx(2 * 2 * 12 * 100 * 64 * 2, rel=0.02)  # 768 wide
    assert not [r for r in formulas(small).rows if r[0] == "key-value cache"]  # type: ignore[union-attr]


def test_the_bar_adds_up_to_the_peak(case: MemoryCase) -> None:
    (bar,) = at_peak(case).bars
    assert sum(part.value for part in bar.parts) == case.peak_bytes
    assert case.peak_bytes == case.run.peak_memory_bytes


def test_the_curve_has_the_peak_and_its_categories_add_up(small: MemoryCase) -> None:
    block = over_the_step(small)
    allocated = block.series[0]
    heights = [y for y in allocated.y if y is not None]
    assert max(heights) == small.peak_bytes
    mark = block.marks[0]
    assert mark.y == small.peak_bytes
    assert heights[allocated.x.index(mark.x)] == small.peak_bytes  # type: ignore[arg-type]
    trace = small.trace
    total = np.sum([curve for _, curve in trace.by_category], axis=0)
    assert (total == trace.allocated_bytes).all()


def test_holders_stay_below_the_peak_and_layers_are_joined(small: MemoryCase) -> None:
    table = holders(small)
    sizes = [row[4] for row in table.rows]
    assert sizes == sorted(sizes, reverse=True)  # type: ignore[type-var]
    assert sum(sizes) <= small.peak_bytes  # type: ignore[arg-type]
    assert not any(".0" in str(row[0]) for row in table.rows)


def test_devices_by_size(small: MemoryCase) -> None:
    table = on_devices(small)
    room = [row[1] for row in table.rows]
    assert room == sorted(room, reverse=True)  # type: ignore[type-var]
    (own,) = table.marked
    assert table.rows[own][0] == small.device.name


def test_changes_save_and_are_real(small: MemoryCase) -> None:
    found = changes(small)
    assert found
    peaks = [change.peak_bytes for change in found]
    assert peaks == sorted(peaks)
    assert all(0 < peak < small.peak_bytes for peak in peaks)
    sgd = next(change for change in found if change.option == "--optimizer sgd")
    again = make_case(
        "gpt2", "h200", WorkloadOptions(task="train", layers=1, seq=512, batch=4, optimizer="sgd")
    )
    assert sgd.peak_bytes == again.peak_bytes
    half = next(change for change in found if change.option == "--batch 2")
    assert half.time_s > small.run.step_time_s / 2
    table = change_table(small, found)
    assert [row[2] for row in table.rows] == [small.peak_bytes - peak for peak in peaks]


def test_a_users_own_step_has_no_options(case: MemoryCase) -> None:
    assert not case.can_change
    assert case.title
    assert changes(case) == ()


def test_a_step_without_device_memory_is_refused() -> None:
    def host():  # type: ignore[no-untyped-def]
        return lambda: torch.ones(4) + 1

    with pytest.raises(InvalidValueError, match="holds no device memory"):
        make_case(host, "h200", WorkloadOptions())
