"""T5-base training, tuned by hand with PyTorch alone."""

import torch
from transformers import T5Config, T5ForConditionalGeneration


def build(batch=16, seq=512):
    torch.set_float32_matmul_precision("high")
    config = T5Config(
        d_model=768, d_kv=64, d_ff=3072, num_layers=12, num_heads=12, decoder_start_token_id=0,
    )
    model = T5ForConditionalGeneration(config).cuda().train()
    compiled = torch.compile(model, dynamic=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    source = torch.randint(0, config.vocab_size, (batch, seq)).pin_memory()
    target = torch.randint(0, config.vocab_size, (batch, seq // 4)).pin_memory()

    def step():
        ids, labels = source.cuda(non_blocking=True), target.cuda(non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = compiled(input_ids=ids, labels=labels).loss
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step
