from __future__ import annotations

import json
from pathlib import Path

import pytest
from memory_work import dense, run, seconds

RECORDED = Path(__file__).parents[2] / "validation/recordings/h200/micro/adamw_8bit.jsonl"


def _update_s(elements: int, dtype: str = "float32") -> float:
    moments = [dense(elements, dtype="uint8", at=at) for at in (2, 3)]
    scales = [dense(elements // 256, at=at) for at in (4, 5)]
    pair = (dense(elements, dtype=dtype, at=0), dense(elements, dtype=dtype, at=1))
    return seconds(run("gpuscope::adamw_8bit", (*pair, *moments, *scales)))


def test_an_update_moves_16_bytes_a_float32_parameter() -> None:
    """4 + 4 + 1 + 1 read, 4 + 1 + 1 written, and two float32 scales for 256 elements either way."""
    n = 256 * 10**5
    moments = [dense(n, dtype="uint8", at=at) for at in (2, 3)]
    scales = [dense(n // 256, at=at) for at in (4, 5)]
    made = run("gpuscope::adamw_8bit", (dense(n, at=0), dense(n, at=1), *moments, *scales))
    moved = sum(kernel.read_bytes + kernel.written_bytes for kernel in made)
    assert moved == pytest.approx((16 + 4 * 4 / 256) * n)


def test_another_element_costs_what_was_measured() -> None:
    """Between two sizes: what the host waits for after each tensor falls out."""
    lines = [json.loads(line) for line in RECORDED.read_text(encoding="utf-8").splitlines()]
    for dtype in ("bfloat16", "float32"):
        found = {line["elements"]: line["least_s"] for line in lines if line["dtype"] == dtype}
        small, large = 1 << 23, 1 << 28
        measured = found[large] - found[small]
        assert _update_s(large, dtype) - _update_s(small, dtype) == pytest.approx(
            measured, rel=0.06
        )


def test_instructions_set_its_pace_and_not_bytes() -> None:
    n = 1 << 26
    assert _update_s(n, "float32") < 1.05 * _update_s(n, "bfloat16")
    full = run("_fused_adamw_", (*(dense(n, at=at) for at in range(4)), dense(at=9)))
    assert _update_s(n) > 2 * seconds(full)
