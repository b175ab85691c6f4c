"""Mixture of 64 experts, eight a token (OLMoE), a quarter of its depth, trained."""

import torch
from transformers import OlmoeConfig, OlmoeForCausalLM


def build():
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = OlmoeForCausalLM(OlmoeConfig(num_hidden_layers=4)).to(torch.bfloat16).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(0, 50000, (4, 1024), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()

    return step
