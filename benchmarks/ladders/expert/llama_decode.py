"""Llama-3.1-8B decoding, tuned by hand: a static cache, the step compiled with CUDA graphs."""

import sys
from pathlib import Path

import torch
from transformers import StaticCache

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from naive.llama_decode import llama


def build(prompt=128, most=1024):
    """One step is one token; after `most` tokens the prompt is read again."""
    model = llama()
    ids = torch.randint(0, 128256, (1, prompt), device="cuda")
    cache = StaticCache(config=model.config, max_cache_len=prompt + most)
    state = {"count": most}

    def decode(token, position):
        out = model(
            input_ids=token, position_ids=position[None], past_key_values=cache, use_cache=True,
            cache_position=position,
        )
        return out.logits[:, -1:].argmax(dim=-1)

    compiled = torch.compile(decode, mode="reduce-overhead", fullgraph=True, dynamic=False)

    @torch.no_grad()
    def step():
        if state["count"] >= most:
            cache.reset()
            state["position"] = torch.tensor([prompt], device="cuda")
            state["token"] = decode(ids, torch.arange(prompt, device="cuda"))
            state["count"] = 0
        else:
            torch.compiler.cudagraph_mark_step_begin()
            state["token"] = compiled(state["token"], state["position"]).clone()
            state["position"] += 1
            state["count"] += 1
        return state["token"]

    return step
