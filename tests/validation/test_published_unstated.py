"""What a row leaves out widens its interval, by arithmetic that a hand can follow."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest

VALIDATION = Path(__file__).resolve().parents[2] / "validation"


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(VALIDATION), *sys.path])


def _row(**changes: object):
    from published.rows import Row

    base = Row(
        id="x",
        source="Megatron-LM SC21 weak scaling",
        ref="r",
        kind="training",
        model="GPT-18B",
        hardware="A100-80GB",
        devices=64,
        seq=2048,
        global_batch=64,
        micro_batch=1,
        tp=8,
        pp=4,
        precision="fp16",
        recompute="full",
        virtual=2,
        quantity="step_time",
        value=10.0,
        unit="s",
    )
    return replace(base, **changes)


def _things(**changes: object):
    from published.express import Expressed, express

    made = express(_row(**changes))
    assert isinstance(made, Expressed), made.why
    return {each.what: each for each in made.unstated}


def test_a_row_that_states_all_is_not_widened() -> None:
    from published.unstated import half_widths

    assert _things() == {}
    assert half_widths(()) == (0.0, 0.0)


def test_recomputation_is_a_forward_pass_of_four_at_most() -> None:
    found = _things(recompute=None)["recomputation"]  # this software's default: full
    assert (found.low, found.high) == (pytest.approx(3 / 4), 1.0)
    assert found.default


def test_interleaving_is_the_idle_share_by_hand() -> None:
    """4 stages, 64 / (64 / 32) = 32 microbatches, 40 layers: up to 10 chunks a rank."""
    found = _things(virtual=None)["interleaving"]
    assert found.high == 1.0  # none is taken, and none idles longer
    assert found.low == pytest.approx((1 + 3 / 320) / (1 + 3 / 32))
    assert not found.default


def test_precision_is_float8_or_16_bits_and_each_side_is_one_way() -> None:
    found = _things(precision=None)["precision"]
    assert (found.low, found.high) == (pytest.approx(1 / 1.3), 1.0)


def test_a_stated_field_never_widens_and_a_missing_one_always_does() -> None:
    from published.express import Expressed, express
    from published.rows import read_rows

    for row in read_rows():
        made = express(row)
        if not isinstance(made, Expressed) or made.stack == "pytorch-eager":
            continue
        named = {each.what for each in made.unstated}
        if made.stack != "fms-fsdp":  # its word leaves open how many blocks are computed again
            assert ("recomputation" in named) is (row.recompute is None)
        assert ("sequence" in named) is (row.seq is None)
        assert ("precision" in named) is (row.precision is None)
        assert all(0 < each.low <= 1 <= each.high for each in made.unstated)


def test_a_word_that_leaves_open_what_was_done_widens_like_none() -> None:
    from published.express import Expressed, express
    from published.rows import read_rows

    row = next(row for row in read_rows() if "fms-fsdp" in row.source)
    made = express(row)
    assert isinstance(made, Expressed)
    found = {each.what: each for each in made.unstated}["recomputation"]
    assert row.recompute == "selective"
    assert 1 < found.high < 4 / 3  # from what is predicted to all blocks again
    assert not found.default


def test_independent_things_add_as_squares_and_a_known_default_counts_less() -> None:
    from published.unstated import Unstated, half_widths

    alone = Unstated("a", 0.5, 1.0, default=False)
    known = Unstated("b", 0.5, 1.0, default=True)
    below, above = half_widths((alone, known))
    assert below == pytest.approx(math.log(2) * math.hypot(0.8, 0.6))
    assert above == 0.0
