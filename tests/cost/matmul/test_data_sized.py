"""Products whose size the data decides: found by what they are made of, and told on Hopper."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from gpuscope import predict  # noqa: E402
from gpuscope.capturing import capture  # noqa: E402
from gpuscope.cost.engine import cost_program  # noqa: E402
from gpuscope.cost.matmul.data_sized import LATE_S, TOLD, late_s, sized_by_data  # noqa: E402
from gpuscope.hardware import device  # noqa: E402
from gpuscope.program.types import Program  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
FILE = ROOT / "validation" / "recordings" / "h200" / "micro" / "data_sized.json"

ROWS, WIDTH, CHOICES = 512, 64, 4


def picking(dtype: Any, masked: bool = True, backward: bool = True) -> Program:
    """One product of all rows, then one of those that a choice picks (a quarter of them)."""

    def build() -> Any:
        first = torch.randn(WIDTH, WIDTH, device="cuda", dtype=dtype, requires_grad=backward)
        second = torch.randn(WIDTH, WIDTH, device="cuda", dtype=dtype, requires_grad=backward)
        rows = torch.randn(ROWS, WIDTH, device="cuda", dtype=dtype)

        def step() -> Any:
            made = rows @ first
            chosen = (rows @ first).detach().argmax(-1) % CHOICES
            picked = torch.where(chosen == 1)[0] if masked else torch.arange(99, device="cuda")
            out = made.index_add(0, picked, made[picked] @ second)
            if backward:
                out.sum().backward()
            return out

        return step

    return capture(build)


def test_only_what_is_made_of_the_picked_rows_is_sized_by_data() -> None:
    program = picking(torch.bfloat16, backward=False)
    found = [program.ops[index] for index in sized_by_data(program)]
    assert [op.name for op in found] == ["aten::mm"]
    rows = found[0].inputs[0].shape[0]
    assert rows not in (ROWS, WIDTH)


def test_gradients_of_such_a_product_are_sized_by_data_too() -> None:
    assert len(sized_by_data(picking(torch.bfloat16))) == 3


def test_rows_picked_by_known_indices_are_not() -> None:
    assert sized_by_data(picking(torch.bfloat16, masked=False)) == ()


def test_float32_has_few_kernels_and_is_not_told() -> None:
    assert sized_by_data(picking(torch.float32)) == ()


@pytest.mark.parametrize(
    ("name", "late"), [("h200", True), ("b200", True), ("a100", False), ("mi300x", False)]
)
def test_kernels_come_late_on_hopper_and_newer(name: str, late: bool) -> None:
    assert late_s(picking(torch.float16), device(name)) == (3 * LATE_S if late else 0.0)


def test_the_user_is_told() -> None:
    assert TOLD in predict(picking(torch.bfloat16), on="h200").assumptions
    assert TOLD not in predict(picking(torch.bfloat16, masked=False), on="h200").assumptions


def test_the_interval_reaches_to_the_first_steps() -> None:
    """Three products, all of it the host's: 3 * 80 us more where the host is slow."""
    program = picking(torch.bfloat16)
    costed = cost_program(program, device("h200"))
    plain = cost_program(picking(torch.float32), device("h200"))
    host_s = sum(each.host_s for each in costed.ops)
    assert (costed.host_spread - plain.host_spread) * host_s == pytest.approx(3 * LATE_S)
    assert costed.host_faster == plain.host_faster
    run = predict(program, on="h200")
    assert run.step_time_interval_s[1] > run.step_time_s + 3 * LATE_S


def test_what_was_measured_says_so() -> None:
    """New sizes cost ten times what they cost again; the steps of a loop over experts fall."""
    found = json.loads(FILE.read_text(encoding="utf-8"))
    for dtype in ("bfloat16", "float16"):
        new, again, once_more = (found["products_us"][f"{dtype}/{i}"]["mean"] for i in range(3))
        assert new > 10 * again
        assert once_more == pytest.approx(again, rel=0.1)
    assert (
        found["products_us"]["float32/0"]["median"]
        < 2 * found["products_us"]["float32/1"]["median"]
    )
    steps = found["steps_ms"]["bf16-weights"]
    assert statistics.mean(steps[:10]) > 2 * statistics.mean(steps[-40:])
