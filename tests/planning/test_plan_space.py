"""Every candidate is a plan that can be; what cannot has its reason with a number."""

from __future__ import annotations

from made import asked

from gpuscope.planning.space import candidates
from gpuscope.program.models.parallel.checks import plan_of
from gpuscope.program.models.parallel.options import ParallelOptions


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


def test_a_pipeline_of_one_replica_is_a_candidate_once() -> None:
    """Nothing is shared by one rank: one sharding stands for all, the one that `plan_of` takes."""
    question = asked(model="llama-3.2-1b", devices="8", seq=1024)
    found, _ = candidates(question)
    alone = [each for each in found if (each.plan.tp, each.plan.pp) == (4, 2)]
    assert {each.plan.fsdp for each in alone} == {"zero1"}
    assert len({each.words for each in found}) == len(found)
    usual = ParallelOptions(world=8, tp=4, pp=2, microbatch=1, global_batch=64)
    assert plan_of(question.size, 1024, usual) in {each.plan for each in alone}
    split = {(each.plan.tp, each.plan.pp) for each in found if each.plan.dp == 1}
    assert split == {(8, 1), (4, 2), (2, 4), (1, 8)}


def test_gradients_are_summed_in_every_micro_batch_only_where_there_are_several() -> None:
    """With one micro-batch ZeRO-2 does what ZeRO-1 does."""
    found, _ = candidates(asked(model="llama-3.2-1b", devices="8", seq=1024))
    plans = [each.plan for each in found if each.plan.fsdp == "zero2"]
    assert plans
    assert all(each.microbatches > 1 and each.pp == 1 for each in plans)


def test_interleaved_stages_are_as_many_as_there_are_layers_for() -> None:
    found, _ = candidates(asked(model="llama-3.2-1b", devices="8", seq=1024))  # 16 layers
    stages = {(each.plan.pp, each.plan.virtual) for each in found if each.plan.virtual > 1}
    assert stages == {(2, 2), (2, 4), (2, 8), (4, 2), (4, 4), (8, 2)}
    assert all(f"virtual {e.plan.virtual}" in e.words for e in found if e.plan.virtual > 1)


def test_a_pipeline_with_too_few_microbatches_is_out_with_their_number() -> None:
    _, out = candidates(asked(model="llama-3.2-1b", devices="8", global_batch=4, seq=1024))
    said = {each.words: each for each in out}
    few = said["8x nvidia-h200-sxm: pp 8, fsdp zero1, schedule 1f1b"]
    assert few.kind == "layout"
    assert "4 are fewer than 8" in few.reason
