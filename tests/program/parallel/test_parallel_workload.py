"""A built-in model and parallel options become a job, and a job a prediction."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tiny_decoders

from gpuscope import api
from gpuscope.errors import InvalidValueError, UnknownNameError, UnsupportedError
from gpuscope.hardware import parse_target
from gpuscope.program.models.parallel.options import ParallelOptions, Software
from gpuscope.program.models.parallel.published import PUBLISHED
from gpuscope.program.models.settings import WorkloadOptions
from gpuscope.program.workload import Workload, check_name, resolve

pytest.importorskip("torch")


def work(name: str = "llama-3.1-70b", more: dict | None = None, **asked: object) -> Workload:
    options = WorkloadOptions(**(more or {}), parallel=ParallelOptions(**asked))  # type: ignore[arg-type]
    return resolve(name, options)


def test_the_title_says_how_the_work_is_split() -> None:
    made = work(world=64, tp=8, pp=2, global_batch=512, recompute="full")
    assert made.title == (
        "llama-3.1-70b train, 64 ranks (dp 4 x tp 8 x pp 2, fsdp zero1, 1f1b), batch 512 x 2048"
        " tokens, 128 microbatches of 1, bfloat16 mixed, adamw-fused, full recomputation"
    )
    assert (made.samples, made.tokens) == (512, 512 * 2048)  # of the whole job
    assert made.world is not None
    assert made.world.size == 64


def test_dtypes() -> None:
    job = work(world=8).job
    assert job is not None
    assert (job.weight_dtype, job.compute_dtype) == ("float32", "bfloat16")
    pure = work(more={"amp": False}, world=8).job
    assert pure is not None
    assert (pure.weight_dtype, pure.compute_dtype) == ("bfloat16", "bfloat16")
    full = work(more={"dtype": "float32"}, world=8).job
    assert full is not None
    assert (full.weight_dtype, full.compute_dtype) == ("float32", "float32")


def test_the_workload_s_own_choices_hold() -> None:
    more = {"attention": "eager", "optimizer": "sgd", "layers": 7, "seq": 512, "compile": "default"}
    job = work(more=more, world=8).job
    assert job is not None
    assert job.software == Software(attention="eager", optimizer="sgd", compile="default")
    assert (job.size.layers, job.tokens) == (7, 512)


def test_checkpointing_is_full_recomputation() -> None:
    job = work(more={"checkpointing": True}, world=8).job
    assert job is not None
    assert job.plan.recompute == "full"
    with pytest.raises(InvalidValueError, match="contradict"):
        work(more={"checkpointing": True}, world=8, recompute="selective")


def test_what_was_assumed_is_said() -> None:
    assert "even" in " ".join(work("mixtral-8x7b", world=8, ep=8).notes)
    assert "padded from 50,257 to 50,432" in " ".join(work("gpt2", world=2, tp=2).notes)
    stages = " ".join(work("llama-3.1-405b", world=128, tp=8, pp=16).notes)
    assert "7, 8, 8" in stages
    assert "tied" in " ".join(work("gpt2", world=4, pp=4).notes)
    assert work(world=8).notes == ()


@pytest.mark.parametrize(
    ("name", "more", "asked", "error", "said"),
    [
        ("llama-3.1-8b", {"task": "decode"}, {}, InvalidValueError, "parallel decode"),
        ("llama-3.1-8b", {"batch": 8}, {}, InvalidValueError, "--microbatch 8"),
        ("llama-3.1-8b", {"dtype": "fp8"}, {}, UnsupportedError, "fp8"),
        ("bert-base", {}, {}, UnsupportedError, "no ready-made parallel program for bert-base"),
        ("resnet50", {}, {}, UnsupportedError, "no ready-made parallel program for resnet50"),
        ("qwen3-next-80b-a3b", {}, {}, UnsupportedError, "with linear"),
        ("nemotron-h-8b", {}, {"cp": 2}, UnsupportedError, "state-space mixers"),
        ("gemma-2-2b", {"seq": 8192}, {"cp": 2}, UnsupportedError, "no ready-made ring"),
        ("llama-3.1-8b", {"attention": "eager"}, {"cp": 2}, InvalidValueError, "fused attention"),
        (
            "llama-3.1-8b",
            {},
            {"tp": 2, "software": Software(loss_chunks=4)},
            InvalidValueError,
            "loss in chunks",
        ),
    ],
)
def test_what_cannot_be(name: str, more: dict, asked: dict, error: type, said: str) -> None:
    with pytest.raises(error, match=said):
        work(name, more, world=8, **asked)


def test_a_pipeline_has_no_single_program() -> None:
    made = work(world=8, pp=2)
    with pytest.raises(InvalidValueError, match="No single program"):
        made.build()


def test_a_job_fills_its_cluster() -> None:
    options = WorkloadOptions(parallel=ParallelOptions(tp=2))
    laid = api.for_cluster(options, parse_target("16xh200"))
    assert laid is not None
    assert laid.parallel == ParallelOptions(tp=2, world=16, node=8)
    assert api.for_cluster(laid, parse_target("8xh200")) == laid
    assert api.for_cluster(None, parse_target("8xh200")) == WorkloadOptions(replicas=(8, 8))
    assert api.for_cluster(None, parse_target("h200")) is None


def test_predicted_from_its_name() -> None:
    options = WorkloadOptions(layers=4, seq=256, parallel=ParallelOptions(fsdp="full"))
    run = api.predict("llama-3.2-1b", "8xh200", options=options)
    assert run.step_time_s > 0
    assert run.program is not None
    assert run.program.world_size == 8
    assert run.tokens == 8 * 256
    more = api.predict("llama-3.2-1b", "16xh200", options=options)
    assert more.peak_memory_bytes is not None
    assert run.peak_memory_bytes is not None
    assert more.peak_memory_bytes < run.peak_memory_bytes  # half the shards


def test_a_mesh_larger_than_the_cluster() -> None:
    options = WorkloadOptions(parallel=ParallelOptions(dp=4, tp=4))
    with pytest.raises(InvalidValueError, match="larger than the cluster"):
        api.predict("llama-3.2-1b", "8xh200", options=options)


def test_any_size_can_be_trained() -> None:
    size = replace(tiny_decoders.GPT, layers=6)
    options = WorkloadOptions(parallel=ParallelOptions(tp=2))
    run = api.predict(size, "4xh100", options=options)
    assert run.step_time_s > 0
    assert run.program is not None
    assert "decoder train, 4 ranks (dp 2 x tp 2" in run.program.name
    alone = resolve(size)
    assert alone.world is not None
    assert alone.world.size == 1


def test_models_known_by_size_alone() -> None:
    made = resolve("GPT-3-175B", WorkloadOptions(parallel=ParallelOptions(world=1024, tp=8, pp=8)))
    assert made.title.startswith("gpt-3-175b train, 1024 ranks (dp 16 x tp 8 x pp 8")
    assert made.seq == 2048
    check_name("gpt-3-175b")
    with pytest.raises(UnknownNameError):
        check_name("gpt-3-176b")


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        # Parameter counts of MosaicML's training tables, exact.
        ("mpt-125m", 125_311_488),
        ("mpt-1b", 1_315_950_592),
        ("mpt-7b", 6_658_859_008),
        ("mpt-13b", 12_853_954_560),
        ("mpt-30b", 29_975_214_080),
        ("mpt-70b", 64_862_437_376),
        # Narayanan et al. 2021, table 1, and the models' reports, rounded.
        ("gpt-1.7b", 1.7e9),
        ("gpt-39b", 39.1e9),
        ("gpt-145b", 145.6e9),
        ("gpt-530b", 529.6e9),
        ("gpt-1t", 1008.0e9),
        ("nemotron-4-340b", 341e9),
        ("deepseek-v2", 236e9),
        ("kimi-k2", 1.03e12),
        ("gpt-oss-120b", 116.8e9),
        ("gpt-oss-20b", 20.9e9),
        ("minimax-m2", 229e9),
        ("qwen3-next-80b-a3b", 80e9),
        ("qwen3.5-397b-a17b", 397e9),
        ("deepseek-v3.2", 671e9),
        ("glm-5", 744e9),
    ],
)
def test_sizes_have_the_published_parameters(name: str, parameters: float) -> None:
    exact = isinstance(parameters, int)
    expected = parameters if exact else pytest.approx(parameters, rel=0.03)
    assert PUBLISHED[name].parameters == expected
