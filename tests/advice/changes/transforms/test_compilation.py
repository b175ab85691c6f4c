"""Modules that are compiled: each once, eager again at the end."""

import torch

from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.changes.transforms.compilation import compile_modules, losses_named


def test_a_module_is_compiled_once_and_eager_again_after(monkeypatch):
    asked = []
    monkeypatch.setattr(torch, "compile", lambda call, **keywords: asked.append(keywords) or call)
    inner = torch.nn.Linear(4, 4)
    outer = torch.nn.Sequential(inner)
    live = Live()
    with live:
        compile_modules(live, [inner], "reduce-overhead")
        compile_modules(live, [outer, inner], None)
        assert asked == [{"mode": "reduce-overhead", "dynamic": None}]
        assert inner._compiled_call_impl is not None
        x = torch.randn(2, 4)
        by_hand = torch.nn.functional.linear(x, inner.weight, inner.bias)
        torch.testing.assert_close(inner(x), by_hand)
    assert inner._compiled_call_impl is None


def test_a_loss_is_named_only_where_it_has_no_name():
    from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel

    small = {"num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 1}
    bert = BertForMaskedLM(BertConfig(**small, intermediate_size=8, vocab_size=9))
    gpt2 = GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=8, n_head=1, vocab_size=9))
    before = bert.loss_type
    for module in (bert, gpt2, torch.nn.Linear(2, 2)):
        losses_named(module)
    assert bert.loss_type == before
    assert gpt2.loss_type == "ForCausalLM"
    gpt2.loss_type = None
    losses_named(torch.nn.DataParallel(gpt2))
    assert gpt2.loss_type == "ForCausalLM"
