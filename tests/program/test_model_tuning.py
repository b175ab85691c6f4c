"""Fine-tuning steps as they are captured: what is held, what is frozen, equal to peft's."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from gpuscope.capturing import capture, capture_job
from gpuscope.errors import InvalidValueError, UnknownNameError, UnsupportedError
from gpuscope.hardware import parse_target
from gpuscope.program.models.registry import find
from gpuscope.program.models.rows import Rows
from gpuscope.program.models.settings import WorkloadOptions
from gpuscope.program.models.tuning import FineTuning
from gpuscope.program.types import Program
from gpuscope.program.world import RankPrograms

MODEL = "llama-3.2-1b"
HIDDEN, FFN, KV, WORDS = 2048, 8192, 512, 128256
BLOCK = 2 * HIDDEN * HIDDEN + 2 * HIDDEN * KV + 3 * HIDDEN * FFN
ADAPTERS = 16 * (2 * 2 * HIDDEN + 2 * (HIDDEN + KV) + 3 * (HIDDEN + FFN)) * 4


def step(
    layers: int = 1, seq: int = 64, packing: str = "", sequences: float = 1.0, **tuning: Any
) -> Program:
    made = FineTuning(**tuning)
    rows = Rows(packing, seq, seq, 1.0, sequences, 1.0) if packing else None
    target = f"{made.devices}xh100" if made.devices > 1 else "h100"
    options = WorkloadOptions(
        task="train", batch=1, seq=seq, layers=layers, dtype="bfloat16", amp=False,
        tuning=made, rows=rows,
    )  # fmt: skip
    found = capture_job(MODEL, parse_target(target), options)
    return found.programs[0] if isinstance(found, RankPrograms) else found


def held(program: Program, category: str) -> int:
    return sum(s.nbytes for s in program.storages if s.category == category and s.died is None)


def test_four_bit_weights_take_what_bitsandbytes_documents() -> None:
    """Half a byte a weight, a byte for each 64, four for each 256 of these."""
    program = step(method="qlora", optimizer="paged-adamw-8bit")
    ends = (WORDS * HIDDEN + 3 * HIDDEN) * 4  # tied; widened, the norms as well
    assert held(program, "parameter") == BLOCK // 2 + ADAPTERS + ends
    scales = BLOCK // 64 + BLOCK // 64 // 256 * 4
    assert held(program, "buffer") == pytest.approx(scales, rel=0.01)


def test_frozen_weights_have_neither_gradients_nor_states() -> None:
    assert held(step(method="lora"), "optimizer_state") == pytest.approx(2 * ADAPTERS, rel=0.01)


def test_large_states_of_a_paged_optimizer_are_not_on_the_device() -> None:
    eight = held(step(method="full", optimizer="adamw-8bit"), "optimizer_state")
    paged = held(step(method="full", optimizer="paged-adamw-8bit"), "optimizer_state")
    parameters = BLOCK + WORDS * HIDDEN
    assert eight == pytest.approx(2 * parameters * (1 + 4 / 256), rel=0.01)
    assert paged == pytest.approx(2 * parameters * 4 / 256, rel=0.01)


def test_a_shared_model_gathers_and_keeps_a_part() -> None:
    program = step(method="lora", devices=2, sharding="full")
    assert any("gather" in op.name for op in program.ops)
    assert held(program, "parameter") == pytest.approx(held(step(), "parameter") / 2, rel=0.02)


def test_what_cannot_be_is_refused() -> None:
    h100 = parse_target("h100")
    with pytest.raises(UnknownNameError):
        FineTuning(method="dora")
    with pytest.raises(InvalidValueError):
        FineTuning(rank=0)
    packed = WorkloadOptions(task="train", tuning=FineTuning(method="qlora"))
    with pytest.raises(UnsupportedError, match="experts"):
        capture_job("mixtral-8x7b", h100, packed)
    with pytest.raises(UnsupportedError, match="cannot be fine-tuned"):
        capture_job("resnet50", h100, WorkloadOptions(tuning=FineTuning()))


def test_operators_are_those_of_peft() -> None:
    """peft's own code on transformers' model: the same operators, shapes and dtypes."""
    peft = pytest.importorskip("peft")
    import torch
    from transformers.models.llama.configuration_llama import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaForCausalLM

    values = find(MODEL).build.__self__.values  # type: ignore[attr-defined]

    def build() -> Any:
        torch.set_default_dtype(torch.bfloat16)
        with torch.device("cuda"):
            model = LlamaForCausalLM(LlamaConfig.from_dict({**values, "num_hidden_layers": 2}))
        torch.set_default_dtype(torch.float32)
        model.tie_weights()
        adapters = peft.LoraConfig(r=16, lora_alpha=32, target_modules="all-linear")
        model = peft.get_peft_model(model, adapters).train()
        optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
        tokens = torch.randint(0, 1000, (1, 64), device="cuda")

        def run() -> Any:
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", torch.bfloat16):
                loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
            loss.backward()
            optimizer.step()
            return loss

        return run

    def counted(program: Program) -> Counter[object]:
        return Counter(
            (op.name, tuple((t.shape, t.dtype) for t in op.outputs)) for op in program.ops
        )

    assert counted(capture(build)) == counted(step(layers=2, method="lora"))


def attention(program: Program) -> list[Any]:
    return [op for op in program.ops if op.name.startswith("gpuscope::attention")]


def test_packed_for_flash_attention_is_one_row_without_a_mask() -> None:
    first, *_ = attention(step(seq=128, method="lora", packing="flash", sequences=2.5))
    assert first.inputs[0].shape == (1, 32, 128, 64)
    assert len(first.inputs) == 3
    assert (first.args["sequences"], first.args["backend"]) == (2.5, "flash_only")


def test_packed_rows_get_a_mask_of_their_own() -> None:
    first, *_ = attention(step(seq=128, method="lora", packing="mask"))
    assert first.inputs[3].shape == (1, 1, 128, 128)
    assert first.args["backend"] == "efficient"


def test_one_padded_row_has_no_padding() -> None:
    assert len(attention(step(seq=128, method="lora", packing="padded"))[0].inputs) == 3


def test_an_unknown_packing_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="packing"):
        WorkloadOptions().packed("512", "dense")
