"""Sentences of what becomes shorter and longer."""

from __future__ import annotations

from dataclasses import replace

from tiny_changes import build

import gpuscope as gs
from gpuscope.advice.forecast.reasons import reason
from gpuscope.document.text import render


def test_the_kinds_that_change_are_named_with_their_times():
    program = gs.capture(build)
    before = gs.predict(program, "h200")
    fast = replace(program, settings={**program.settings, "tf32_matmul": True})
    after = gs.predict(fast, "h200")
    said = reason(before, after)
    assert said.startswith("Matrix products ")
    assert "→" in said
    assert render(said, "zh").startswith("矩阵乘法")
    assert "Nothing that sets the pace" in reason(before, before)
    # Twice the work in the same time: the products count half.
    assert "Matrix products" in reason(before, before, work=2.0)


def test_the_host_is_named_where_it_sets_the_pace():
    program = gs.capture(lambda: build(1))
    before = gs.predict(program, "h200")
    slow = replace(before, host_busy_s=2 * before.step_time_s, step_time_s=2 * before.step_time_s)
    assert "the host" in reason(before, slow).lower()
