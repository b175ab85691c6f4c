"""What lies in the host's memory: bytes and seconds by hand, when it is tried, what starts it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from made import asked, planned, torchtitan_reads

from gpuscope.cost.host.arithmetic import arithmetic_s
from gpuscope.errors import UnsupportedError
from gpuscope.hardware import parse_target
from gpuscope.planning.composed import composed_s
from gpuscope.planning.score import score
from gpuscope.planning.simulate import Simulator
from gpuscope.planning.space import candidates
from gpuscope.planning.tables import Tables
from gpuscope.planning.types import Candidate
from gpuscope.program.models.parallel.options import Parallelism
from gpuscope.program.types import Op, TensorSpec

AWAY = (("offload", "cpu"),)


def test_an_update_on_the_host_is_bound_by_its_memory() -> None:
    n = 10**8
    lists = tuple(TensorSpec((n,), (1,), "float32", "host") for _ in range(4))
    counters = (TensorSpec((), (), "float32", "host"),)
    alone, shared = (
        arithmetic_s(Op(0, "aten::_fused_adamw_", inputs=(*lists, *counters)), ranks)
        for ranks in (1, 8)
    )
    assert alone == pytest.approx(28 * n / 145e9)  # 16 bytes read, 12 written
    assert shared == pytest.approx(28 * n / (490e9 / 8))
    half = tuple(replace(each, device="device") for each in lists)
    assert arithmetic_s(Op(0, "aten::_fused_adamw_", inputs=half)) == 0.0


def test_states_leave_the_device_and_the_update_waits_for_the_host() -> None:
    cluster, layout = parse_target("8xh200"), Parallelism(dp=8, microbatches=1, microbatch=8)
    plans = [Candidate(cluster, layout), Candidate(cluster, layout, AWAY)]
    scores = score(asked(), plans)
    assert scores.least_bytes[1] == 0
    # 8.03 billion parameters over 8 ranks: 12 bytes of parameters and moments, 4 of gradients.
    freed = scores.estimate_bytes[0] - scores.estimate_bytes[1]
    assert freed == pytest.approx(16 * 8.03e9 / 8, rel=0.01)
    update_s = 28 * 8.03e9 / 8 / (490e9 / 8)
    assert scores.estimate_s[1] - scores.estimate_s[0] == pytest.approx(update_s, rel=0.1)


def test_the_simulated_rank_holds_none_of_it() -> None:
    question = asked(model="gpt2", seq=512, devices="1", global_batch=4)
    small = replace(question, size=question.size.deep(2))
    layout = Parallelism(dp=1, microbatch=4, microbatches=1)
    simulator = Simulator(replace(small, model=small.size))  # type: ignore[arg-type]
    usual, away = (Candidate(parse_target("h200"), layout, more) for more in ((), AWAY))
    here, there = simulator.judge(usual, 0.0), simulator.judge(away, 0.0)
    held = dict(there.held)
    assert "optimizer_state" not in held
    assert "parameter" not in held
    # 54.5 million parameters: 28 bytes each over the host's memory, 8 over a link of 64 GB/s.
    least_s = 54.5e6 * (28 / 145e9 + 4 / 64e9)
    assert there.step_s > here.step_s + 0.8 * least_s


@pytest.mark.slow
def test_simulated_and_composed_agree() -> None:
    question = asked(model="llama-3.2-1b", on="h100", global_batch=16)
    away = Candidate(parse_target("8xh100"), Parallelism(dp=8, microbatch=2), AWAY)
    quick = composed_s(question, away, Tables(question).of(away))
    assert quick == pytest.approx(Simulator(question).judge(away, quick).step_s, rel=0.08)


def test_where_it_cannot_be() -> None:
    found, out = candidates(asked(offload="cpu"))
    assert {each.more for each in found} == {AWAY}
    assert all(each.plan.pp == 1 and each.plan.fsdp != "none" for each in found)
    assert any("DDP moves nothing" in each.reason for each in out)


def test_what_starts_it(tmp_path: Path) -> None:
    both = {"offload_optimizer", "offload_param"}
    for fsdp, away in (("full", both), ("zero1", {"offload_optimizer"})):
        read = json.loads(planned(AWAY, dp=8, fsdp=fsdp).to("deepspeed"))["zero_optimization"]
        assert {key for key in read if key.startswith("offload")} == away
    file = yaml.safe_load(planned(AWAY, dp=8).to("accelerate"))
    assert file["fsdp_config"]["fsdp_offload_params"] is True
    here = yaml.safe_load(planned((), dp=8).to("accelerate"))
    assert here["fsdp_config"]["fsdp_offload_params"] is False
    script = planned(AWAY, dp=8).to("fsdp2")
    compile(script, "train.py", "exec")
    assert '"offload_policy": CPUOffloadPolicy()' in script
    assert 'to_empty(device="cpu")' in script
    assert "CPUOffload" not in planned((), dp=8).to("fsdp2")
    with pytest.raises(UnsupportedError, match="cannot start offload cpu"):
        planned(AWAY, dp=8, fsdp="zero1").to("megatron")
    titan = torchtitan_reads(planned(AWAY, dp=8).to("torchtitan"), tmp_path)
    assert titan.training.enable_cpu_offload


def test_deepspeed_reads_it(tmp_path: Path) -> None:
    reader = pytest.importorskip("deepspeed.runtime.config")
    path = tmp_path / "config.json"
    path.write_text(planned(AWAY, "h200", dp=1).to("deepspeed"))
    read = reader.DeepSpeedConfig(str(path))
    assert read.zero_config.offload_optimizer.device == "cpu"
