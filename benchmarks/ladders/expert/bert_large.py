"""BERT-large training, tuned by hand: no mask (all ones), blocks compiled, fused optimizer.

Compiling the whole model makes it slower: while the compiler traces, transformers builds a mask
whatever it is given, and that rules fused attention out. Block by block, the mask stays outside.
"""

import torch
from transformers import BertConfig, BertForMaskedLM


def build(batch=32, seq=512):
    torch.set_float32_matmul_precision("high")
    config = BertConfig(
        hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096,
        attn_implementation="sdpa",
    )
    model = BertForMaskedLM(config).cuda().train()
    for layer in model.bert.encoder.layer:
        layer.compile(dynamic=False)
    model.cls.compile(dynamic=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(0, config.vocab_size, (batch, seq)).pin_memory()
    labels = torch.where(torch.rand(batch, seq) < 0.15, tokens, -100).pin_memory()

    def step():
        ids, targets = tokens.cuda(non_blocking=True), labels.cuda(non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            out = model(input_ids=ids, labels=targets)
        out.loss.backward()
        optimizer.step()
        return out.loss.detach()

    return step
