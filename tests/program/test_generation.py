"""`model.generate` in a step: as many passes as tokens are asked for, whatever the tokens are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from gpuscope.program.capture import capture

transformers = pytest.importorskip("transformers")

TOKENS = 6


def decoder() -> Any:
    config = transformers.GPT2Config(
        n_layer=1, n_embd=32, n_head=2, vocab_size=100, eos_token_id=99, bos_token_id=99
    )
    return transformers.GPT2LMHeadModel(config)


def llama() -> Any:
    config = transformers.LlamaConfig(
        num_hidden_layers=1,
        hidden_size=32,
        intermediate_size=64,
        num_attention_heads=2,
        vocab_size=100,
    )
    return transformers.LlamaForCausalLM(config)


def t5() -> Any:
    config = transformers.T5Config(
        d_model=32,
        d_kv=16,
        d_ff=64,
        num_layers=1,
        num_heads=2,
        vocab_size=100,
        decoder_start_token_id=0,
    )
    return transformers.T5ForConditionalGeneration(config)


def bart() -> Any:
    sizes = {"encoder_layers": 1, "decoder_layers": 1}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    wide = {"encoder_ffn_dim": 64, "decoder_ffn_dim": 64}
    config = transformers.BartConfig(d_model=32, vocab_size=100, **sizes, **heads, **wide)
    return transformers.BartForConditionalGeneration(config)


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (decoder, {}),
        (decoder, {"do_sample": True, "top_k": 5, "top_p": 0.9}),
        (decoder, {"num_beams": 3}),
        (llama, {"cache_implementation": "static"}),
        (t5, {}),
        (bart, {"num_beams": 2}),
    ],
    ids=["greedy", "sampling", "beams", "static cache", "t5", "bart"],
)
def test_as_many_passes_as_tokens(make: Callable[[], Any], options: dict[str, Any]) -> None:
    def build() -> Callable[[], object]:
        model = make().cuda().eval()
        prompt = torch.randint(3, 90, (2, 16), device="cuda")
        return lambda: model.generate(
            prompt, max_new_tokens=TOKENS, min_new_tokens=TOKENS, pad_token_id=0, **options
        )

    program = capture(build)
    assert (
        sum(op.module.endswith("lm_head") and op.name == "aten::mm" for op in program.ops) == TOKENS
    )
