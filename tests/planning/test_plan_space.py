"""Every candidate is a plan that can be; what cannot has its reason with a number."""

from __future__ import annotations

from made import asked

from gpuscope.planning.space import candidates
from gpuscope.program.models.parallel.checks import plan_of


def test_every_candidate_fills_its_cluster_and_makes_the_batch() -> None:
    found, _ = candidates(asked(devices="1..8"))
    assert {each.cluster.n_devices for each in found} == {1, 2, 4, 8}
    assert all(each.plan.world_size == each.cluster.n_devices for each in found)
    assert all(each.plan.global_batch == 64 for each in found)
    assert len({(e.cluster.name, e.plan) for e in found}) == len(found)


def test_what_does_not_divide_is_out_with_its_number() -> None:
    found, out = candidates(asked(model="gpt2", seq=1024, devices="8"))
    assert all(each.plan.tp <= 4 for each in found)  # 12 heads
    reasons = {str(each.reason) for each in out if "tp 8" in each.words}
    assert "12 query heads cannot be split over 8 ranks." in reasons


def test_its_options_make_the_same_plan_again() -> None:
    question = asked(seq=8192)
    found, _ = candidates(question)
    assert any(each.plan.cp > 1 for each in found)
    assert all(plan_of(question.size, 8192, each.asked) == each.plan for each in found)
