"""The definitions, on figures worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpuscope.errors import InvalidValueError
from gpuscope.serving.metrics import metrics
from gpuscope.serving.result import FAILED, FINISHED, Served, Serving
from gpuscope.serving.slo import Limit, parse_slo


def run(rows: int, failed: int = 0) -> Serving:
    """Requests every second: first token after 0.2 s, then 4 more in 0.4 s; the last ones fail."""
    start = np.arange(rows, dtype=float)
    status = np.where(np.arange(rows) >= rows - failed, FAILED, FINISHED)
    served = Served(
        intended_s=start,
        sent_s=start + 0.01,
        input_tokens=np.full(rows, 10),
        output_tokens=np.full(rows, 5),
        first_token_s=start + 0.2,
        finished_s=start + 0.6,
        status=status,
        reason=np.where(status == FAILED, 0, -1),
    )
    return Serving("measured", "m", "", "", "", served, reasons=("x",), energy_j=100.0)


def test_definitions() -> None:
    found = metrics(run(40))
    assert found.ttft.p50_s == pytest.approx(0.2)
    assert found.e2e.mean_s == pytest.approx(0.6)
    assert found.tpot.p99_s == pytest.approx(0.1)
    assert found.duration_s == pytest.approx(39.6 - 0.01)
    assert found.output_tokens_per_s == pytest.approx(200 / 39.59)
    assert found.tokens_per_s == pytest.approx(600 / 39.59)
    assert found.energy_per_token_j == pytest.approx(0.5)


def test_failures_are_counted_and_keep_no_limit() -> None:
    found = metrics(run(40, failed=10), parse_slo("ttft<300ms, tpot<1s"))
    assert (found.requests, found.finished, found.failed) == (40, 30, 10)
    assert found.kept_share == pytest.approx(0.75)
    assert metrics(run(40), parse_slo("ttft<100ms")).kept_share == 0.0


def test_too_few_have_no_p99_and_none_have_nothing() -> None:
    assert metrics(run(29)).ttft.p99_s is None
    found = metrics(run(3, failed=3))
    assert found.ttft.mean_s is None
    assert found.requests_per_s is None


def test_one_token_has_no_tpot() -> None:
    made = run(40)
    one = replace(made, served=replace(made.served, output_tokens=np.ones(40, np.int64)))
    assert metrics(one).tpot.mean_s is None
    assert metrics(one, (Limit("tpot", 0.01),)).kept_share == 1.0


@pytest.mark.parametrize("text", ["", "ttft<500", "ttft>1s", "p99<1s", "ttft<0ms", "ttft<1s,"])
def test_limits_that_are_none(text: str) -> None:
    with pytest.raises(InvalidValueError, match="no limit"):
        parse_slo(text)
