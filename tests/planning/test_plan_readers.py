"""What each writer writes is read as the same plan; other people's files, too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made import asked, planned

from gpuscope.errors import GpuscopeError, InputFileError, UnsupportedError
from gpuscope.planning.existing import existing

PLANS: list[tuple[str, Any, dict[str, Any]]] = [
    ("deepspeed", (), {"dp": 8, "fsdp": "zero1", "microbatch": 2, "microbatches": 4}),
    ("deepspeed", (), {"dp": 8, "fsdp": "full", "microbatches": 8, "recompute": "full"}),
    ("deepspeed", (("offload", "cpu"),), {"dp": 8, "fsdp": "zero2", "microbatches": 8}),
    ("accelerate", (), {"dp": 8, "fsdp": "full", "microbatch": 2, "microbatches": 4}),
    ("accelerate", (), {"dp": 8, "fsdp": "zero2", "microbatches": 8, "recompute": "full"}),
    ("accelerate", (("precision", "fp8"),), {"dp": 8, "fsdp": "none", "microbatches": 8}),
    ("megatron", (), {"dp": 2, "tp": 2, "pp": 2, "fsdp": "zero1", "microbatches": 32}),
    (
        "megatron",
        (("precision", "fp8"), ("states", "bf16")),
        {"dp": 4, "tp": 2, "fsdp": "zero1", "microbatches": 16, "recompute": "full"},
    ),
    ("megatron", (("sp", "off"),), {"dp": 4, "tp": 2, "fsdp": "zero1", "microbatches": 16}),
    ("megatron", (("stages", "17+15"),), {"dp": 4, "pp": 2, "fsdp": "zero1", "microbatches": 16}),
    (
        "torchtitan",
        (("precision", "fp8"),),
        {"dp": 8, "fsdp": "full", "microbatch": 2, "microbatches": 4},
    ),
    ("torchtitan", (), {"dp": 8, "fsdp": "zero2", "microbatches": 8}),
    ("torchtitan", (("offload", "cpu"),), {"dp": 8, "fsdp": "full", "microbatches": 8}),
    ("torchtitan", (("stages", "17+15"),), {"dp": 4, "pp": 2, "fsdp": "none", "microbatches": 16}),
]


def _read(tmp_path: Path, text: str, **question: Any) -> Any:
    path = tmp_path / "plan"
    path.write_text(text, "utf-8")
    return existing(asked(**question), path)


@pytest.mark.parametrize(("framework", "fsdp"), [("megatron", "zero1"), ("torchtitan", "full")])
@pytest.mark.parametrize("more", [(), (("etp", "2"),)])
def test_cut_experts_are_read_as_they_are_written(
    tmp_path: Path, framework: str, fsdp: str, more: Any
) -> None:
    plan = planned(more, dp=4, tp=2, ep=4, fsdp=fsdp, microbatches=16)
    plan = replace(plan, question=asked(model="qwen3-30b-a3b"))
    _, found = _read(tmp_path, plan.to(framework), model="qwen3-30b-a3b")
    assert found == plan.best.candidate


@pytest.mark.parametrize(("framework", "more", "layout"), PLANS)
def test_what_is_written_is_read(
    tmp_path: Path, framework: str, more: Any, layout: dict[str, Any]
) -> None:
    plan = planned(more, **layout)
    question, found = _read(tmp_path, plan.to(framework))
    assert found == plan.best.candidate
    assert question.global_batch == plan.best.candidate.plan.global_batch
    for name, value in more:
        assert name == "stages" or value in dict(question.tries)[name]


def test_our_own_names_may_be_numbers(tmp_path: Path) -> None:
    _, found = _read(tmp_path, "tp = 2\nep = 4\netp = 2\n", model="qwen3-30b-a3b")
    assert found.more == (("etp", "2"),)


def test_our_own_names_say_what_is_beside_the_layout(tmp_path: Path) -> None:
    _, found = _read(tmp_path, 'tp = 2\nprecision = "fp8"\nstates = "float32"\n')
    assert found.more == (("precision", "fp8"),)


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("{", InputFileError, "no JSON object"),
        ("[1]", GpuscopeError, "Unknown key"),
        ("pretrain_gpt.py --seq-length 'x", InputFileError, "quotation"),
        ("pretrain_gpt.py --seq-length many", GpuscopeError, "many"),
        ('{"train_micro_batch_size_per_gpu": 0}', GpuscopeError, "0"),
    ],
)
def test_wrong_files(tmp_path: Path, text: str, kind: type[GpuscopeError], said: str) -> None:
    with pytest.raises(kind, match=said) as told:
        _read(tmp_path, text)
    assert told.value.next_step


def test_what_a_device_lacks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="fp8"):
        _read(tmp_path, 'tp = 2\nprecision = "fp8"\n', on="a100")
