"""Decoding as users write it: a prompt, then one token at a time over a cache that grows."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM


def _model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=211, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=8, num_key_value_heads=2, head_dim=8, max_position_embeddings=1024,
    )  # fmt: skip
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return LlamaForCausalLM(config).to(device).eval()


def build():
    """Each step: one more token; the cache goes on growing."""
    model = _model()
    device = model.device
    torch.manual_seed(1)
    prompt = torch.randint(0, 211, (2, 12), device=device)
    with torch.no_grad():
        out = model(input_ids=prompt, use_cache=True)
    state = {"past": out.past_key_values, "token": out.logits[:, -1:].argmax(-1)}

    @torch.no_grad()
    def step():
        out = model(input_ids=state["token"], past_key_values=state["past"], use_cache=True)
        state["past"] = out.past_key_values
        state["token"] = out.logits[:, -1:].argmax(-1)
        return out.logits

    return step


def build_whole():
    """Each step: a prompt and eight tokens, with a mask over what was seen."""
    model = _model()
    device = model.device
    torch.manual_seed(2)
    prompt = torch.randint(0, 211, (2, 12), device=device)

    @torch.no_grad()
    def step():
        mask = torch.ones_like(prompt)
        mask[0, :3] = 0
        out = model(input_ids=prompt, attention_mask=mask, use_cache=True)
        tokens = []
        for _ in range(8):
            token = out.logits[:, -1:].argmax(-1)
            tokens.append(token)
            mask = torch.cat([mask, torch.ones_like(token)], -1)
            out = model(
                input_ids=token, attention_mask=mask, past_key_values=out.past_key_values,
                use_cache=True,
            )  # fmt: skip
        return torch.cat(tokens, -1)

    return step
