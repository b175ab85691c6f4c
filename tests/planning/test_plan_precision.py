"""Float8 products: what they save by hand, where they cannot be, what starts them."""

from __future__ import annotations

import json
import shlex
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from made import asked, planned, torchtitan_reads

from gpuscope.errors import UnknownNameError, UnsupportedError
from gpuscope.hardware import parse_target
from gpuscope.planning.neighbours import changed
from gpuscope.planning.score import score
from gpuscope.planning.space import candidates
from gpuscope.planning.types import Candidate
from gpuscope.program.models.parallel.options import Parallelism

FP8 = (("precision", "fp8"),)


def test_only_the_products_of_the_blocks_are_faster() -> None:
    question, cluster = asked(), parse_target("8xh200")
    layout = Parallelism(dp=8, microbatches=8)
    usual, quick = score(
        question, [Candidate(cluster, layout), Candidate(cluster, layout, FP8)]
    ).least_s
    # Llama 3.1 8B: 8.03 billion parameters, of which twice 128,256 x 4,096 at the ends; the output
    # layer and the scores (32 heads of 128 over 4,096 tokens, a layer) stay in bfloat16.
    ends = 128256 * 4096
    inside, beside = 8030261248 - 2 * ends, ends + 32 * 32 * 128 * 4096
    half = (inside / 2 + beside) / (inside + beside)
    assert quick / usual == pytest.approx(half, rel=1e-3)
    assert 0.5 < half < 0.6


def test_it_is_tried_only_where_it_is_asked_for() -> None:
    assert {each.more for each in candidates(asked())[0]} == {()}
    both = candidates(asked(precision="bf16,fp8"))[0]
    assert len(both) == 2 * len(candidates(asked())[0])
    one = next(each for each in both if each.more)
    assert one.words.endswith("precision fp8")
    assert one.asked.software.matmul == "float8"
    usual = replace(one, more=())
    assert changed(usual, one) == "precision bf16 → fp8"
    assert one.dimensions == usual.dimensions + 1


def test_a_device_without_it_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"A100.* has no fp8"):
        asked(on="a100", precision="fp8")
    found, out = candidates(asked(on="a100,h100", precision="fp8"))
    assert {each.cluster.device.id for each in found} == {parse_target("h100").device.id}
    assert [each.reason for each in out if "precision fp8" in each.words] != []
    assert {each.more for each in candidates(asked(on="a100", precision="bf16,fp8"))[0]} == {()}
    with pytest.raises(UnknownNameError, match="fp9"):
        asked(precision="fp9")


def test_what_starts_it() -> None:
    titan = planned(FP8, dp=8).to("torchtitan")
    read = tomllib.loads(titan)
    assert read["model"]["converters"] == ["quantize.linear.float8"]
    assert read["quantize"]["linear"]["float8"]["filter_fqns"] == ["output"]
    assert "differ from what was predicted" in titan
    accelerate = yaml.safe_load(planned(FP8, dp=8).to("accelerate"))
    assert (accelerate["mixed_precision"], accelerate["fp8_config"]["fp8_backend"]) == ("fp8", "TE")
    words = shlex.split(planned(FP8, dp=8, fsdp="zero1").to("megatron"), comments=True)
    assert words[words.index("--fp8-format") + 1] == "hybrid"
    assert "fp8" not in json.dumps(planned((), dp=8).to("deepspeed"))
    for framework in ("deepspeed", "fsdp2"):
        with pytest.raises(UnsupportedError, match="cannot start precision fp8"):
            planned(FP8, dp=8).to(framework)


def test_torchtitan_reads_it(tmp_path: Path) -> None:
    read = torchtitan_reads(planned(FP8, dp=8).to("torchtitan"), tmp_path)
    assert read.model.converters == ["quantize.linear.float8"]
    assert read.quantize.linear.float8.filter_fqns == ["output"]


def test_only_what_the_framework_starts_is_offered() -> None:
    question = asked(framework="deepspeed", precision="bf16,fp8")
    found, out = candidates(question)
    assert found
    assert {(e.plan.tp, e.plan.pp, e.more) for e in found} == {(1, 1, ())}
    assert {each.kind for each in out} >= {"framework"}
    with pytest.raises(UnknownNameError):
        asked(framework="megatorn")


@pytest.mark.slow
def test_composed_and_simulated_agree() -> None:
    from gpuscope.planning.composed import composed_s
    from gpuscope.planning.simulate import Simulator
    from gpuscope.planning.tables import Tables

    question = asked(model="llama-3.2-1b", on="h100", global_batch=16, precision="bf16,fp8")
    tables, simulator = Tables(question), Simulator(question)
    plans = [
        e for e in candidates(question)[0] if e.words.startswith("dp 8, fsdp full, microbatch 2")
    ]
    plans = [each for each in plans if each.plan.recompute == "none"]
    quick = [composed_s(question, each, tables.of(each)) for each in plans]
    exact = [simulator.judge(each, 0.0) for each in plans]
    assert quick == pytest.approx([each.step_s for each in exact], rel=0.05)
    estimated = score(question, plans).estimate_bytes
    for each, peak in zip(exact, estimated, strict=True):
        assert peak == pytest.approx(each.peak_bytes, rel=0.2)
