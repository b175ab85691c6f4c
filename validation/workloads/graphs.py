"""Steps in CUDA graphs: decoding from a static cache, a network made of graphed callables."""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

EIGHT_B = {
    "vocab_size": 128256,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0},
    "max_position_embeddings": 131072,
}


def llama_8b_static():
    """One token of Llama-3.1-8B, 1024 places of a cache of 2048 in use, compiled with graphs."""
    torch.manual_seed(0)
    config = LlamaConfig(**EIGHT_B)
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = LlamaForCausalLM(config).eval()
    torch.set_default_dtype(default)
    cache = StaticCache(config=config, max_cache_len=2048)
    cache.early_initialization(1, 8, 128, torch.bfloat16, "cuda")
    for layer in cache.layers:  # each step appends one more
        layer.cumulative_length.fill_(1024)
    token = torch.randint(0, 128256, (1, 1), device="cuda")
    compiled = torch.compile(model, mode="reduce-overhead")

    @torch.no_grad()
    def step():
        return compiled(input_ids=token, past_key_values=cache, use_cache=True).logits.argmax(-1)

    return step


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True)
            for _ in range(8)
        )

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def graphed_callable():
    """A small transformer whose forward and backward pass are graphs, its optimizer eager."""
    torch.manual_seed(0)
    x = torch.randn(8, 64, 512, device="cuda", requires_grad=True)
    y = torch.randn(8, 64, 512, device="cuda")
    tower = torch.cuda.make_graphed_callables(Tower().cuda().train(), (x,))
    optimizer = torch.optim.AdamW(tower.parameters(), lr=1e-4, fused=True)

    def step():
        optimizer.zero_grad(set_to_none=False)
        loss = F.mse_loss(tower(x), y)
        loss.backward()
        optimizer.step()

    return step
