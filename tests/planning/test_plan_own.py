"""Plans of a user's own code: what is combined, what is chosen, what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

import gpuscope as gs
from gpuscope.errors import GpuscopeError, InvalidValueError, UnknownNameError, UnsupportedError
from gpuscope.hardware import Cluster, parse_target
from gpuscope.planning.own import score
from gpuscope.planning.own.explanation import explained_own
from gpuscope.planning.own.score import TECHNIQUES, Effects
from gpuscope.planning.own.search import candidates, question_of_own, search_own
from gpuscope.planning.own.simulate import Quick
from gpuscope.planning.own.types import Changed, OwnPlan, OwnQuestion, Weighed
from gpuscope.planning.own.untried import untried_own

SCRIPT = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(2048, 8192), nn.Linear(8192, 2048)

    def forward(self, x):
        return x + self.down(self.up(x).relu())

def build(batch=4096):
    model = nn.Sequential(*(Block() for _ in range(1))).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(batch, 2048, device="cuda")

    def step():
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step

def without():
    return build()

def broken(batch=8):
    raise ValueError("no data")
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training of one process."""
    path = tmp_path_factory.mktemp("own") / "train.py"
    path.write_text(SCRIPT, "utf-8")
    return path


@pytest.fixture(scope="module")
def answer(script: Path) -> OwnPlan:
    """Its plan for two devices and a batch of the whole job; of the changes two, to be quick."""
    asked = question_of_own(f"{script}:build", on="2xh200", global_batch=16384, simulate=3)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(score, "TECHNIQUES", ("bf16-autocast", "fused-optimizer"))
        return search_own(asked)


def test_one_is_chosen_of_what_was_simulated(answer: OwnPlan) -> None:
    best = answer.best
    assert best in answer.judged
    assert best in answer.ties
    assert best.candidate.batch == 8192
    assert best.candidate.samples == 16384
    assert {each.candidate.share for each in answer.judged} == {"ddp", "fsdp", "fsdp-kept"}
    assert "bf16-autocast" in best.candidate.techniques  # float32 products are the whole step
    assert answer.before is not None
    assert best.step_s / best.candidate.samples < answer.before.step_s / 8192 / 1.5
    assert len(answer.rejected) + len(answer.judged) >= answer.candidates


def test_what_it_says(answer: OwnPlan) -> None:
    told = explained_own(answer, "fsdp")
    assert any("times the samples" in line for line in told.summary)
    why, starts = told.sections[-2:]
    assert why.title == "Why not fsdp"
    lines = [line.text for line in starts.blocks[0].lines]
    assert f"torchrun --standalone --nproc-per-node 2 {answer.question.target[:-6]}" in lines[-1]
    assert "build(batch=8192)" in lines
    with pytest.raises(InvalidValueError, match="names no candidate"):
        explained_own(answer, "tp=2")


def test_the_answer_has_what_every_plan_has(answer: OwnPlan) -> None:
    assert set(answer.front) <= set(answer.judged)
    quickest = min(answer.judged, key=lambda each: each.value("time") or 0.0)
    assert quickest in answer.front
    assert sum(answer.counts.values()) == len(answer.rejected)
    titles = [section.title for section in explained_own(answer, framework="accelerate").sections]
    assert {"All against all", "What holds the memory", "What would halve the cost"} <= set(titles)


def test_python_asks_as_the_command_line_does(script: Path) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(score, "TECHNIQUES", ("bf16-autocast",))
        given = {"on": "h200", "simulate": 2, "grid": "fr"}
        found = gs.plan(f"{script}:build", device_set="memory=100GB", **given)
        assert isinstance(found, OwnPlan)
        assert found.best.usable_bytes < 100e9
        told = explained_own(found)
        assert any("does not exist" in note for note in told.assumptions)
        assert any("CO2" in line for line in told.summary)
    with pytest.raises(InvalidValueError, match="of your own code does not ask for seq"):
        gs.plan(f"{script}:build", on="h200", seq=4096)
    with pytest.raises(InvalidValueError, match="has no task"):
        gs.plan(f"{script}:build", task="serve", on="h200")


def _planned(target: str, *given: object) -> OwnPlan:
    """A plan made by hand: cluster, sharing, batch, techniques, own batch."""
    best = Weighed(
        candidate=Changed(parse_target(target), *given),  # type: ignore[arg-type]
        scored_s=1.0,
        step_s=1.0,
        low_s=0.9,
        high_s=1.1,
        peak_bytes=1,
        usable_bytes=2,
        fits=1.0,
        energy_j=None,
        usd=None,
    )
    asked = OwnQuestion(target="train.py:build", clusters=(best.candidate.cluster,))
    every = (best,)
    return OwnPlan(
        question=asked,
        best=best,
        ties=every,
        front=every,
        judged=every,
        rejected=(),
        before=None,
        candidates=1,
    )


def test_accelerate_shares_as_the_plan_does() -> None:
    techniques = ("bf16-autocast", "compile", "checkpoint")
    text = _planned("8xh200", "fsdp", 32, techniques, 8).to("accelerate")
    read = yaml.safe_load(text)
    assert (read["distributed_type"], read["mixed_precision"]) == ("FSDP", "bf16")
    assert read["fsdp_config"]["fsdp_reshard_after_forward"] is True
    assert read["fsdp_config"]["fsdp_activation_checkpointing"] is True
    assert '# In the script: 32 samples a process, gpuscope.apply("compile").start().' in text
    whole = yaml.safe_load(_planned("2x8xh200", "ddp", 8, ("tf32",), 8).to("accelerate"))
    assert (whole["distributed_type"], whole["num_processes"]) == ("MULTI_GPU", 16)
    assert whole["mixed_precision"] == "no"


def test_deepspeed_shards_by_stage() -> None:
    for share, stage in (("ddp", 0), ("fsdp-kept", 2), ("fsdp", 3)):
        read = json.loads(_planned("8xh200", share, 4, ("bf16-autocast",), 4).to("deepspeed"))
        assert read["zero_optimization"] == {"stage": stage}
        assert read["train_micro_batch_size_per_gpu"] == 4
        assert read["torch_autocast"]["enabled"] is True


def test_the_real_readers_take_the_files(tmp_path: Path) -> None:
    accelerate = pytest.importorskip("accelerate.commands.config.config_args")
    deepspeed = pytest.importorskip("deepspeed.runtime.config")
    path = tmp_path / "plan.yaml"
    path.write_text(_planned("8xh200", "fsdp", 32, ("bf16-autocast",), 8).to("accelerate"))
    read = accelerate.ClusterConfig.from_yaml_file(str(path))
    assert (read.num_processes, read.fsdp_config["fsdp_version"]) == (8, 2)
    path = tmp_path / "plan.json"
    path.write_text(_planned("h200", "", 4, ("bf16-autocast",), 4).to("deepspeed"))
    taken = deepspeed.DeepSpeedConfig(str(path))
    assert (taken.train_micro_batch_size_per_gpu, taken.zero_optimization_stage) == (4, 0)


def test_what_a_framework_cannot_is_refused() -> None:
    plan = _planned("8xh200", "", 8, (), 8)
    assert "torchrun --standalone --nproc-per-node 8 train.py" in plan.to("torchrun")
    for framework in ("accelerate", "deepspeed"):
        with pytest.raises(UnsupportedError, match="cannot share this code"):
            plan.to(framework)
    with pytest.raises(UnsupportedError, match="torchtitan does not run code of yours"):
        plan.to("torchtitan")
    with pytest.raises(UnknownNameError, match="nothing"):
        plan.to("nothing")


def test_it_is_what_predict_says_of_the_same_changes(answer: OwnPlan, script: Path) -> None:
    from gpuscope.advice.forecast.forecaster import Forecaster
    from gpuscope.program.models.settings import WorkloadOptions

    best = answer.best
    with Forecaster(
        f"{script}:build", "2xh200", options=WorkloadOptions(batch=best.candidate.batch)
    ) as forecaster:
        found = forecaster.forecast(best.candidate.names, interval=False)
    assert found.step_time_s == pytest.approx(best.step_s, rel=0.01)
    assert found.peak_memory_bytes == best.peak_bytes


def test_a_batch_that_is_a_candidate_is_answered_from_the_search(answer: OwnPlan) -> None:
    assert len(explained_own(answer, "batch=8192").sections[-2].blocks[0].rows) > 1
    with pytest.raises(InvalidValueError, match="names no candidate"):
        explained_own(answer, "batch=0")


@pytest.mark.slow
def test_any_other_batch_is_simulated_when_asked_for(answer: OwnPlan) -> None:
    ((words, reason),) = explained_own(answer, "batch=2,fsdp").sections[-2].blocks[0].rows
    assert "fsdp, batch 2" in words
    assert "Simulated now" in reason
    assert "not the 16384" in reason
    free = replace(answer, question=replace(answer.question, global_batch=None))
    ((_, some),) = untried_own(free, {"batch": "3000"})
    ((_, many),) = untried_own(free, {"batch": "5000000"})
    assert "Of the goal's figure" in some
    assert "% likely to fit" in many
    assert untried_own(free, {"batch": "3", "": "none"}) == ()


def test_wrong_questions(script: Path) -> None:
    with pytest.raises(GpuscopeError, match="has no function 'nothing'"):
        search_own(question_of_own(f"{script}:nothing", on="h200"))
    with pytest.raises(InvalidValueError, match="names a number of devices"):
        question_of_own(f"{script}:build", on="8xh200", devices=4)
    with pytest.raises(InvalidValueError, match="No device"):
        question_of_own(f"{script}:build", on="")
    with pytest.raises(GpuscopeError, match=r"ValueError \(line 31 of .*no data"):
        search_own(question_of_own(f"{script}:broken", on="h200"))


def _effects(cluster: Cluster, alone: Mapping[str, Quick]) -> Effects:
    base = {cluster: Quick(1.0, 100)}
    made = {(cluster, name): found for name, found in alone.items()}
    return Effects(tuple(alone), (), 8, base, {cluster: Quick(1.5, 160)}, made)


def test_effects_are_put_together() -> None:
    cluster = parse_target("2xh200")
    alone = {"tf32": Quick(0.5, 100), "checkpoint": Quick(1.2, 70), "ddp": Quick(1.1, 130)}
    effects = _effects(cluster, alone)
    assert effects.of(Changed(cluster, "", 8, (), 8)) == Quick(1.0, 100)
    assert effects.of(Changed(cluster, "", 32, (), 8)).step_s == pytest.approx(1 + 3 * 0.5)
    both = effects.of(Changed(cluster, "ddp", 16, ("tf32", "checkpoint"), 8))
    assert both.step_s == pytest.approx(1.5 * 0.5 * 1.2 + 0.1)
    assert both.peak_bytes == 160 - 2 * 30 + 30


def test_two_of_a_group_are_never_combined() -> None:
    cluster = parse_target("h200")
    names = {name: Quick(0.9, 90) for name in TECHNIQUES}
    asked = OwnQuestion(target="train.py:build", clusters=(cluster,), global_batch=8)
    found = list(candidates(asked, _effects(cluster, names)))
    # as it is or one of two precisions, one of two recomputations; with and without two others
    assert len(found) == len({each.techniques for each in found}) == 3 * 3 * 2 * 2
    assert not any({"tf32", "bf16-autocast"} <= set(each.techniques) for each in found)


def test_words_and_simplicity() -> None:
    cluster = parse_target("2xh200")
    plain = Changed(cluster)
    assert (plain.words, plain.dimensions, plain.samples) == ("as it is", 0, 2)
    more = Changed(cluster, "fsdp", 32, ("tf32",), 8)
    assert more.words == "fsdp, batch 32, tf32"
    assert more.dimensions == 2 + 2  # two changes, two doublings
    judged = Weighed(
        candidate=more,
        scored_s=1.0,
        step_s=1.0,
        low_s=0.9,
        high_s=1.1,
        peak_bytes=1,
        usable_bytes=2,
        fits=1.0,
        energy_j=128.0,
        usd=None,
    )
    assert judged.value("energy") == 2.0
    assert judged.value("cost") is None
