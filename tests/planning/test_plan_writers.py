"""What starts a plan with accelerate or Megatron-LM, read back; what these cannot, refused."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from typing import Any

import pytest
import yaml
from made import asked, judged, planned, torchtitan_reads

import gpuscope
from gpuscope.errors import UnsupportedError
from gpuscope.planning.simulate import Simulator
from gpuscope.planning.types import Plan


def _plan(model: str = "llama-3.1-8b", target: str = "8xh200", **layout: Any) -> Plan:
    best = judged(1.0, target, **layout)
    return Plan(
        question=asked(model=model),
        best=best,
        ties=(best,),
        front=(best,),
        judged=(best,),
        rejected=(),
        candidates=1,
        scored_per_s=1.0,
    )


def test_accelerate_shards_as_the_plan_does() -> None:
    text = _plan(dp=8, microbatch=2, microbatches=4, recompute="full").to("accelerate")
    read = yaml.safe_load(text)
    assert (read["distributed_type"], read["num_processes"], read["num_machines"]) == ("FSDP", 8, 1)
    fsdp = read["fsdp_config"]
    assert fsdp["fsdp_version"] == 2
    assert fsdp["fsdp_reshard_after_forward"] is True
    assert fsdp["fsdp_activation_checkpointing"] is True
    assert "gradient_accumulation_steps=4" in text
    assert "2 sequences of 4096" in text
    kept = yaml.safe_load(_plan(dp=8, fsdp="zero2").to("accelerate"))
    assert kept["fsdp_config"]["fsdp_reshard_after_forward"] is False


def test_accelerate_without_sharding() -> None:
    read = yaml.safe_load(_plan(target="2x8xh200", dp=16, fsdp="none").to("accelerate"))
    assert (read["distributed_type"], read["num_machines"]) == ("MULTI_GPU", 2)
    assert "fsdp_config" not in read
    alone = yaml.safe_load(_plan(target="h200", dp=1).to("accelerate"))
    assert (alone["distributed_type"], alone["num_processes"]) == ("NO", 1)


def test_accelerate_reads_its_file(tmp_path: Any) -> None:
    reader = pytest.importorskip("accelerate.commands.config.config_args")
    path = tmp_path / "config.yaml"
    path.write_text(_plan(dp=8).to("accelerate"), "utf-8")
    read = reader.ClusterConfig.from_yaml_file(str(path))
    assert (read.num_processes, read.fsdp_config["fsdp_version"]) == (8, 2)


def test_megatron_splits_as_the_plan_does() -> None:
    layout = {"dp": 2, "tp": 2, "pp": 2, "fsdp": "zero1", "microbatches": 32, "recompute": "full"}
    text = _plan(schedule="interleaved", virtual=2, **layout).to("megatron")
    words = shlex.split(text, comments=True)
    given = dict(zip(words, [*words[1:], ""], strict=True))
    assert given["--tensor-model-parallel-size"] == given["--pipeline-model-parallel-size"] == "2"
    assert given["--global-batch-size"] == "64"
    assert given["--num-query-groups"] == "8"
    assert given["--num-virtual-stages-per-pipeline-rank"] == "2"
    assert {"--sequence-parallel", "--use-distributed-optimizer", "--swiglu"} <= set(words)
    assert "--qk-layernorm" not in words
    size = asked().size
    assert given["--num-layers"] == str(size.layers)
    assert given["--ffn-hidden-size"] == str(size.ffn)
    plain = _plan(dp=8, fsdp="none").to("megatron")
    assert "--use-distributed-optimizer" not in plain
    assert "--recompute" not in plain


@pytest.mark.parametrize(
    ("framework", "layout"),
    [
        ("accelerate", {"dp": 4, "tp": 2}),
        ("accelerate", {"dp": 8, "fsdp": "zero1"}),
        ("accelerate", {"dp": 8, "recompute": "selective"}),
        ("accelerate", {"dp": 8, "fsdp": "none", "recompute": "full"}),
        ("megatron", {"dp": 8, "fsdp": "full"}),
        ("megatron", {"dp": 4, "pp": 2, "fsdp": "zero1", "schedule": "zb"}),
    ],
)
def test_what_a_framework_cannot_is_refused(framework: str, layout: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError, match="cannot ask for") as error:
        _plan(**layout).to(framework)
    assert "--for" in str(error.value.next_step)


def _of_experts(more: Any = (), **changes: Any) -> Plan:
    """A plan of a mixture of experts, over tp 2 and ep 4."""
    plan = planned(more, dp=4, tp=2, ep=4, fsdp="zero1", microbatches=16)
    size = asked(model="qwen3-30b-a3b").size
    assert size.experts is not None
    size = replace(size, experts=replace(size.experts, **changes))
    return replace(plan, question=replace(plan.question, size=size))


@pytest.mark.parametrize(("more", "cut"), [((), "1"), ((("etp", "2"),), "2")])
def test_megatron_spreads_and_cuts_experts(more: Any, cut: str) -> None:
    words = shlex.split(_of_experts(more, dense_layers=3).to("megatron"), comments=True)
    given = dict(zip(words, [*words[1:], ""], strict=True))
    assert given["--expert-model-parallel-size"] == "4"
    assert given["--expert-tensor-parallel-size"] == cut
    assert (given["--num-experts"], given["--moe-router-topk"]) == ("128", "8")
    assert given["--moe-ffn-hidden-size"] == "768"
    assert given["--moe-layer-freq"] == "([0]*3+[1]*45)"
    assert "--sequence-parallel" in words


def test_megatron_refuses_shared_experts_and_experts_without_shared_tokens() -> None:
    with pytest.raises(UnsupportedError, match="shared experts"):
        _of_experts(shared_ffn=768).to("megatron")
    with pytest.raises(UnsupportedError, match="experts with sp off"):
        _of_experts((("sp", "off"),)).to("megatron")


def test_the_script_of_fsdp2_does_what_was_simulated(tmp_path: Any) -> None:
    layout = {"dp": 2, "fsdp": "zero1", "microbatch": 2, "microbatches": 2}
    made = _plan("gpt2", "2xh100", **layout, recompute="selective")
    question = replace(made.question, seq=128, global_batch=8)
    path = tmp_path / "train.py"
    path.write_text(replace(made, question=question).to("fsdp2"), "utf-8")
    run = gpuscope.predict(str(path), on="2xh100")
    simulated = Simulator(question).judge(made.best.candidate, 1.0)
    assert run.peak_memory_bytes == pytest.approx(simulated.peak_bytes, rel=0.01)
    assert run.step_time_s == pytest.approx(simulated.step_s, rel=0.1)


def test_the_script_of_fsdp2_says_the_plan() -> None:
    hybrid = _plan(target="2x8xh200", dp=16, fsdp="hybrid", shard=8, recompute="selective")
    text = hybrid.to("fsdp2")
    compile(text, "train.py", "exec")
    assert "init_device_mesh(DEVICE, (2, 8))" in text
    assert '"reshard_after_forward": True' in text
    assert 'recomputed(block, "selective")' in text
    assert "--nnodes 2" in text
    assert "set_requires_gradient_sync" not in text


@pytest.mark.parametrize(
    ("model", "layout"),
    [
        ("llama-3.1-8b", {"tp": 8}),
        ("llama-3.1-8b", {"dp": 8, "fsdp": "none"}),
        ("mixtral-8x7b", {"dp": 8}),
    ],
)
def test_the_script_of_fsdp2_refuses_what_it_cannot_do(model: str, layout: Any) -> None:
    with pytest.raises(UnsupportedError, match="cannot do"):
        _plan(model, **layout).to("fsdp2")


def test_deepspeed_shards_by_stage() -> None:
    stages = [("none", 0), ("zero1", 1), ("zero2", 2), ("full", 3)]
    for fsdp, stage in stages:
        read = json.loads(_plan(dp=8, fsdp=fsdp, microbatch=2, microbatches=4).to("deepspeed"))
        assert read["zero_optimization"] == {"stage": stage}
    assert read["train_batch_size"] == 64
    assert "4096 tokens" in read["gpuscope"]
    assert "recomputes (full)" in _plan(dp=8, recompute="full").to("deepspeed")
    for layout in ({"tp": 8}, {"dp": 16, "fsdp": "hybrid", "shard": 8}):
        with pytest.raises(UnsupportedError, match="DeepSpeed cannot ask for"):
            _plan(target="2x8xh200", **layout).to("deepspeed")


def test_deepspeed_reads_its_file(tmp_path: Any) -> None:
    reader = pytest.importorskip("deepspeed.runtime.config")
    path = tmp_path / "config.json"
    path.write_text(_plan(dp=1, target="h200", microbatch=2, microbatches=4).to("deepspeed"))
    read = reader.DeepSpeedConfig(str(path))
    assert (read.train_micro_batch_size_per_gpu, read.gradient_accumulation_steps) == (2, 4)
    assert read.bfloat16_config.enabled
    assert read.zero_optimization_stage == 0


def test_torchtitan_reads_its_file(tmp_path: Any) -> None:
    layout = {"dp": 4, "pp": 2, "microbatch": 1, "microbatches": 8, "recompute": "selective"}
    read = torchtitan_reads(_plan(**layout).to("torchtitan"), tmp_path)
    assert read.parallelism.data_parallel_shard_degree == 4
    assert read.parallelism.pipeline_parallel_degree == 2
    assert read.parallelism.pipeline_parallel_schedule == "1F1B"
    assert read.training.local_batch_size == 8
    assert read.training.mixed_precision_param == "bfloat16"
    assert read.activation_checkpoint.mode == "selective"
    assert read.activation_checkpoint.selective_ac_option == "op"  # not every second block
