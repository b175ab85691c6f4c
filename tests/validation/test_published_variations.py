"""Rows nobody has seen: a variation of a known row is a sensible plan or a clear refusal."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

VALIDATION = Path(__file__).resolve().parents[2] / "validation"


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(VALIDATION), *sys.path])


def _one_of_each():
    """A row of every source and hardware that is expressed as a decoder."""
    from published.express import Expressed, express
    from published.rows import read_rows

    seen = {}
    for row in read_rows():
        made = express(row)
        if isinstance(made, Expressed) and made.options.parallel is not None:
            seen.setdefault((row.source, row.hardware), row)
    return list(seen.values())


def _express(row):
    from published.express import Expressed, express

    made = express(row)
    if isinstance(made, Expressed):
        return made
    assert made.why.strip()
    return None


@pytest.mark.parametrize("times", [2, 3, 7])
def test_more_devices_batches_and_tokens_are_in_the_plan_or_are_refused(times: int) -> None:
    held = 0
    for row in _one_of_each():
        for name in ("devices", "global_batch", "micro_batch", "seq", "tp", "pp", "cp"):
            now = getattr(row, name)
            if now is None:
                continue
            made = _express(replace(row, **{name: now * times}))
            if made is None:
                continue
            held += 1
            plan = made.options.parallel
            replicas = made.devices // ((plan.tp or 1) * (plan.pp or 1) * (plan.cp or 1))
            assert plan.global_batch % (replicas * plan.microbatch) == 0
            assert made.tokens == plan.global_batch * made.options.seq
            assert made.workload.context >= made.options.seq
            wanted = {
                "devices": made.devices,
                "seq": made.options.seq,
                "tp": plan.tp,
                "pp": plan.pp,
            }
            wanted |= {"global_batch": plan.global_batch}
            if name in wanted and "local batch" not in (row.said or ""):
                assert wanted[name] == now * times, (row.source, name)
    assert held > 50


@pytest.mark.parametrize(
    ("precision", "matmul"),
    [
        ("BF16", "compute"),
        ("amp_bf16", "compute"),
        ("fp16 mixed", "compute"),
        ("FP8-CS", "float8"),
        ("BF16 + FP8 hybrid", "float8"),
        ("float8 linears + bf16", "float8"),
        ("MXFP8", "float8"),
        ("FP32", None),
        ("TF32", None),
        ("INT8", None),
        ("NVFP4", "float4"),
        ("MXFP4 weights, bf16", None),
    ],
)
def test_a_word_for_precision_is_understood_or_refused(precision: str, matmul: str | None) -> None:
    for row in _one_of_each():
        made = _express(replace(row, precision=precision))
        assert (made.options.parallel.software.matmul if made else None) == matmul


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("FULL_SHARD", {"fsdp": "full"}),
        ("SHARD_GRAD_OP", {"fsdp": "zero2"}),
        ("ZeRO-1", {"fsdp": "zero1"}),
        ("FSDP=64", {"fsdp": "full"}),
        ("FSDP16", {"fsdp": "hybrid", "node": 16}),
        ("FSDP=64 (0)", {"fsdp": "full"}),
        ("FSDP=0", {}),
        ("none", {}),
        (None, {}),
    ],
)
def test_a_word_for_sharding_is_understood(said: str | None, kind: dict[str, object]) -> None:
    from published.words import sharded

    assert sharded(said, 64) == kind


def test_an_unknown_word_for_sharding_is_refused() -> None:
    from published.words import sharded

    with pytest.raises(ValueError, match="means nothing"):
        sharded("ZeRO-Infinity with NVMe", 8)


@pytest.mark.parametrize(
    ("printed", "name"),
    [
        ("LLAMA3.1_405B", "llama-3.1-405b"),
        ("Llama-3-70B", "llama-3.1-70b"),
        ("meta-llama/Llama-3.1-8B", "llama-3.1-8b"),
        ("Llama 2 13B", "llama-2-13b"),
        ("Llama3.1-70B-MaxText", "llama-3.1-70b"),
        ("Llama-3.2-1B", "llama-3.2-1b"),
        ("Qwen3_30B_a3B (tokendrop)", "qwen3-30b-a3b"),
        ("Mixtral 8X7B", "mixtral-8x7b"),
        ("DeepSeek-V3", "deepseek-v3"),
        ("DeepSeek-V3.2", "deepseek-v3.2"),
        ("NEMOTRON4-15B", "nemotron-4-15b"),
        ("Nemotron-8B", "nemotron-3-8b"),
        ("Nemotron_3_Nano", "nemotron-3-nano-30b-a3b"),
        ("NEMOTRONH_56B", "nemotron-h-56b"),
        ("GPT OSS 120B", "gpt-oss-120b"),
        ("openai/gpt-oss-20b", "gpt-oss-20b"),
        ("Gemma3-12B-MaxText", "gemma3-12b"),
    ],
)
def test_a_model_is_known_by_any_spelling_of_its_name(printed: str, name: str) -> None:
    from published.sizes import name_of

    assert name_of(printed) == name


def test_a_name_with_other_parameters_than_the_row_prints_is_refused() -> None:
    from published.express import NotExpressed, express

    row = next(row for row in _one_of_each() if row.model == "Llama2-70b")
    assert _express(replace(row, params="69B")) is not None
    other = express(replace(row, params="13B"))
    assert isinstance(other, NotExpressed)
    assert "parameters" in other.why


@pytest.mark.parametrize(
    "model", ["Llama4-Scout", "Nemotron_3_Super", "Mamba2-8B", "llama_2_70b_lora", "NobodyLM-7B"]
)
def test_models_without_a_program_are_refused_however_they_are_written(model: str) -> None:
    for row in _one_of_each()[:4]:
        assert _express(replace(row, model=model, shape=None, params=None)) is None


def test_a_device_is_known_by_the_catalogue_s_name_and_by_its_memory() -> None:
    from published.machines import machine_of

    assert machine_of("AMD Instinct MI300X 192GB HBM3").device.endswith("mi300x")
    assert machine_of("NVIDIA L40S").device.endswith("l40s")
    assert machine_of("TPU-v5p").device.endswith("tpu-v5p")
    with pytest.raises(ValueError, match="96GB"):
        machine_of("H100 96GB")
    with pytest.raises(ValueError, match="catalogue"):
        machine_of("Abacus 3000")


def test_a_mixture_cut_to_few_layers_keeps_the_leading_blocks_of_its_software() -> None:
    """SimuMax's scripts leave one block without experts; the whole DeepSeek-V3 has three."""
    row = next(row for row in _one_of_each() if "SimuMax" in row.source)
    cut = _express(replace(row, model="deepseekv3 truncated to 4 layers", tp=1, ep=8))
    assert (cut.workload.layers, cut.workload.experts.dense_layers) == (4, 1)
