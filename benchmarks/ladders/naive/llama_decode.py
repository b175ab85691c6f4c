"""Llama-3.1-8B decoding as first written: one token at a time, a cache that grows."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.initialization import no_init_weights


def llama(layers=32):
    config = LlamaConfig(
        vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=layers,
        num_attention_heads=32, num_key_value_heads=8, max_position_embeddings=131072,
        rope_theta=500000.0, torch_dtype="bfloat16",
    )
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"), no_init_weights():
        model = LlamaForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    generator = torch.Generator("cuda").manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.02, generator=generator)
    return model.eval()


def build(prompt=128, most=1024):
    """One step is one token; after `most` tokens the prompt is read again."""
    model = llama()
    ids = torch.randint(0, 128256, (1, prompt), device="cuda")
    state = {}

    @torch.no_grad()
    def step():
        if not state or state["count"] >= most:
            out = model(input_ids=ids, use_cache=True)
            state.update(count=0)
        else:
            out = model(
                input_ids=state["token"], past_key_values=state["cache"], use_cache=True
            )
        state["cache"] = out.past_key_values
        state["token"] = out.logits[:, -1:].argmax(dim=-1)
        state["count"] += 1
        return state["token"].item()

    return step
