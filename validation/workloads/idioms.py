"""Programs whose road depends on values of the host: generation, ragged data, samplers, CTC loss.

None of them was looked at when a constant was fitted. `validation/idioms.py` runs them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as functional
from torch import nn

Step = Callable[[], object]
NEW_TOKENS = 16


def _generation(make: Callable[[], nn.Module], batch: int, prompt: int, **how: Any) -> Step:
    torch.manual_seed(0)
    model: Any = make().to(torch.bfloat16).cuda().eval()
    x = torch.randint(3, 900, (batch, prompt), device="cuda")
    length = {"max_new_tokens": NEW_TOKENS, "min_new_tokens": NEW_TOKENS, "pad_token_id": 0}
    return lambda: model.generate(x, attention_mask=torch.ones_like(x), **length, **how)


def _gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config())


def _llama() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
        vocab_size=128256,
    )
    return LlamaForCausalLM(config)


def _t5() -> nn.Module:
    from transformers import T5Config, T5ForConditionalGeneration

    return T5ForConditionalGeneration(T5Config(decoder_start_token_id=0))


def gpt2_generate() -> Step:
    """Greedy."""
    return _generation(_gpt2, 4, 64)


def gpt2_beams() -> Step:
    """Four beams."""
    return _generation(_gpt2, 2, 64, num_beams=4)


def gpt2_sampling() -> Step:
    """Drawn from the likeliest."""
    return _generation(_gpt2, 4, 64, do_sample=True, top_k=50, top_p=0.9)


def llama1b_generate() -> Step:
    """A model of 1.2 billion parameters, greedy."""
    return _generation(_llama, 1, 256)


def llama1b_static() -> Step:
    """The same with a static cache, which transformers compiles."""
    return _generation(_llama, 1, 256, cache_implementation="static")


def t5_generate() -> Step:
    """Encoder and decoder."""
    return _generation(_t5, 4, 64)


def ctc() -> Step:
    """Connectionist temporal classification over 400 steps."""
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 64)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    x, targets = torch.randn(400, 32, 256).cuda(), torch.randint(1, 64, (32, 60)).cuda()
    lengths = torch.full((32,), 400), torch.full((32,), 60)

    def step() -> None:
        optimizer.zero_grad()
        functional.ctc_loss(model(x).log_softmax(-1), targets, *lengths).backward()
        optimizer.step()

    return step


def moe_f32() -> Step:
    """Sparse experts in float32 under autocast: grouped products that CUDA takes apart."""
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        hidden_size=512,
        intermediate_size=1024,
        num_hidden_layers=2,
        num_attention_heads=8,
        num_key_value_heads=4,
        num_local_experts=8,
        vocab_size=8000,
    )
    model: Any = MixtralForCausalLM(config).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randint(0, 8000, (4, 512), device="cuda")

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(x, labels=x).loss
        loss.backward()
        optimizer.step()

    return step


def data_parallel() -> Step:
    """`DataParallel` on one device, with a check for finite numbers."""
    model = nn.DataParallel(nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(8)])).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(256, 1024, device="cuda")

    def step() -> None:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        assert torch.isfinite(loss)
        loss.backward()
        optimizer.step()

    return step


def ragged() -> Step:
    """Rows split by lengths that the host knows, and taken by a mask."""
    model = nn.Linear(512, 512).cuda()
    lengths = torch.tensor([10, 200, 34, 500, 280]).cuda()
    x = torch.randn(1024, 512, device="cuda")

    def step() -> object:
        parts = [functional.gelu(model(part)) for part in torch.split(x, lengths.tolist())]
        return torch.cat(parts)[torch.arange(1024) % 4 == 0].sum()

    return step


def sampler() -> Step:
    """A small network whose loader draws by weights, in the step."""
    from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

    data = TensorDataset(torch.randn(4096, 3, 32, 32), torch.randint(0, 10, (4096,)))
    drawn = WeightedRandomSampler(torch.rand(4096).tolist(), 100_000)
    batches = iter(DataLoader(data, batch_size=128, sampler=drawn))
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)
    model = nn.Sequential(nn.Conv2d(3, 64, 3), nn.ReLU(), *head).cuda()
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        x, y = next(batches)
        optimizer.zero_grad()
        functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
        optimizer.step()

    return step


ALL: dict[str, Callable[[], Step]] = {
    build.__name__: build
    for build in (
        gpt2_generate,
        gpt2_beams,
        gpt2_sampling,
        llama1b_generate,
        llama1b_static,
        t5_generate,
        ctc,
        moe_f32,
        data_parallel,
        ragged,
        sampler,
    )
}
