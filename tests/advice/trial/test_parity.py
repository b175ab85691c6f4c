"""Verdicts from observations made by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.advice.trial.observed import Observed
from gpuscope.advice.trial.parity import distribution, judge, varies

LOSSES = (2.0, 1.5, 1.0)


def seen(
    losses: tuple[float, ...] = LOSSES,
    norms: tuple[float | None, ...] = (1.0, 1.0, 1.0),
    update: float | None = 0.5,
    **more: object,
) -> Observed:
    quantities: dict[str, object] = {
        "loss": tuple((x,) for x in losses),
        "gradient norm": tuple(None if x is None else (x,) for x in norms),
    }
    if update is not None:
        quantities["update"] = ((update,),)
    return Observed(quantities, **more)  # type: ignore[arg-type]


def scaled(factor: float) -> Observed:
    return seen(tuple(x * factor for x in LOSSES))


def test_the_same_agrees() -> None:
    found = judge("exact", seen(), seen())
    assert found.good
    assert found.verdict == "agrees"
    assert all(each.largest == 0 for each in found.compared)


def test_one_per_cent_of_the_loss_is_too_much_for_exact_arithmetic() -> None:
    found = judge("reordered", seen(), scaled(1.01))
    assert found.verdict == "differs"
    first = next(c for c in found.compared if c.what == "loss, first step")
    assert first.largest == pytest.approx(0.01)
    assert not first.agrees


def test_a_small_difference_is_fine_in_bfloat16_only() -> None:
    assert judge("bf16", seen(), scaled(1.003)).good
    assert not judge("tf32", seen(), scaled(1.003)).good


def test_another_order_of_rounding_in_bfloat16_is_as_coarse_as_bfloat16() -> None:
    assert not judge("reordered", seen(), scaled(1.003)).good
    assert judge("reordered", seen(precision="bfloat16"), scaled(1.003)).good
    assert not judge("exact", seen(precision="bfloat16"), scaled(1.003)).good


def test_not_a_number_is_overflow() -> None:
    assert judge("bf16", seen(), seen((2.0, math.nan, 1.0))).verdict == "overflow"
    assert judge("bf16", seen(), seen((2.0, math.inf, 1.0))).verdict == "overflow"


def test_a_number_that_was_never_finite_is_no_overflow() -> None:
    both = seen((2.0, math.nan, 1.0))
    assert judge("bf16", both, both).verdict == "agrees"


def test_a_skipped_step_differs() -> None:
    found = judge("bf16", seen(), seen(norms=(1.0, None, 1.0)))
    assert found.verdict == "differs"
    assert max(c.largest for c in found.compared) == math.inf


def test_a_scaler_may_skip_a_step_in_float16() -> None:
    assert judge("fp16", seen(), seen(norms=(None, 1.0, 1.0))).good


def test_what_cannot_be_seen_is_said() -> None:
    hidden = Observed({"update": ((0.5,),)})
    found = judge("reordered", seen(), hidden)
    assert found.verdict == "agrees"
    assert found.note is not None


def test_nothing_to_compare_is_not_good() -> None:
    found = judge("exact", Observed({}), Observed({}))
    assert found.verdict == "unchecked"
    assert not found.good


def test_outputs_are_compared_as_vectors() -> None:
    base = Observed({"output": ((3.0, 4.0),)})
    other = Observed({"output": ((3.0, 4.05),)})
    found = judge("tf32", base, other)
    assert found.compared[0].largest == pytest.approx(0.01)
    longer = Observed({"output": ((3.0, 4.0, 0.0),)})
    assert judge("int4", base, longer).verdict == "differs"


def test_another_recipe_is_held_to_the_loss_alone() -> None:
    found = judge("recipe", seen(), seen((2.1, 1.6, 1.0), norms=(9.0, 9.0, 9.0), update=7.0))
    assert found.good
    assert {c.what.partition(",")[0] for c in found.compared} == {"loss"}


def test_a_sensitive_model_may_drift_as_far_as_its_own_rounding_moves_it() -> None:
    base, other = seen(), seen((2.0, 1.5, 1.1))
    assert not judge("bf16", base, other).good
    moved = seen((2.0, 1.5, 1.04))
    assert judge("bf16", base, other, moved=moved).good
    assert not judge("bf16", base, seen((2.0, 1.5, 2.0)), moved=seen((2.0, 1.5, 9.0))).good


def test_a_model_that_varies() -> None:
    assert varies(seen(), scaled(1.05))
    assert not varies(seen(), scaled(1 + 1e-7))


def test_distribution() -> None:
    bases = [scaled(f) for f in (0.97, 1.0, 1.03, 0.99, 1.01)]
    near = [scaled(f) for f in (0.98, 1.0, 1.02)]
    far = [scaled(f) for f in (1.28, 1.3, 1.32)]
    assert distribution("reordered", bases, near).verdict == "distribution"
    assert distribution("reordered", bases, near).good
    assert distribution("reordered", bases, far).verdict == "differs"
    wild = [seen((math.nan, 1.0, 1.0))] * 3
    assert distribution("reordered", bases, wild).verdict == "overflow"


@given(st.floats(0.0, 0.5), st.floats(0.0, 0.5))
def test_a_larger_difference_never_agrees_where_a_smaller_does_not(a: float, b: float) -> None:
    small, large = sorted((a, b))
    if judge("bf16", seen(), scaled(1 + large)).good:
        assert judge("bf16", seen(), scaled(1 + small)).good


def test_dropout_is_told() -> None:
    found = judge("exact", seen(dropout=True), seen(dropout=True))
    assert found.note is not None
    assert "ropout" in found.note


def text(outputs: tuple[float, ...], fed: tuple[float, ...]) -> Observed:
    return Observed({"output": tuple((x, 1.0) for x in outputs), "fed": tuple((x,) for x in fed)})


def test_outputs_are_compared_until_tokens_part() -> None:
    base = text((1.0, 2.0, 3.0, 4.0), (7, 8, 9, 9))
    other = text((1.0, 2.0, 30.0, 40.0), (7, 8, 1, 9))
    found = judge("reordered", base, other)
    assert found.verdict == "agrees"
    assert found.compared[0].steps == 2
    assert found.note is not None
    assert "step 2" in found.note
    # before they part, a difference counts
    assert judge("reordered", base, text((1.0, 2.5, 30.0, 40.0), (7, 8, 1, 9))).verdict == "differs"
    # the same text, other outputs
    assert judge("reordered", base, text((1.0, 2.0, 3.0, 5.0), (7, 8, 9, 9))).verdict == "differs"


def test_the_first_step_is_compared_whatever_it_was_fed() -> None:
    base, other = text((1.0, 2.0), (7, 8)), text((5.0, 2.0), (1, 8))
    found = judge("reordered", base, other)
    assert found.verdict == "differs"
    assert found.compared[0].steps == 1


def test_a_chaotic_model_is_held_to_its_first_step() -> None:
    """Later losses scatter by 10 %, the first one does not."""
    bases = [seen((2.0, 1.5 * f, 1.0 * f)) for f in (0.9, 1.0, 1.1, 0.95, 1.05)]
    near = [seen((2.002, 1.5 * f, 1.0 * f), (1.02, 1.0, 1.0)) for f in (1.1, 0.92, 1.0)]
    assert distribution("bf16", bases, near).verdict == "distribution"
    # one part in ten off before any update: no rounding does that
    wrong = [seen((2.2, 1.5 * f, 1.0 * f)) for f in (1.1, 0.92, 1.0)]
    assert distribution("bf16", bases, wrong).verdict == "differs"
    steep = [seen((2.0, 1.5 * f, 1.0 * f), (1.2, 1.0, 1.0)) for f in (1.1, 0.92, 1.0)]
    assert distribution("bf16", bases, steep).verdict == "differs"
    # right at first, and off by more than the original ever is
    later = [seen((2.0, 3.0 * f, 2.0 * f)) for f in (1.1, 0.92, 1.0)]
    assert distribution("bf16", bases, later).verdict == "differs"
