"""Decoding builds of a small Llama for the tests of changes."""

import torch


def decoding(device="cuda", tokens=12, batch=1, dtype=torch.float32, width=64, layers=2):
    """A build that decodes one token a step over a cache that grows; its step gives the logits."""

    def build():
        from transformers import LlamaConfig, LlamaForCausalLM

        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=200,
            hidden_size=width,
            intermediate_size=2 * width,
            num_hidden_layers=layers,
            num_attention_heads=8,
            num_key_value_heads=2,
            max_position_embeddings=4096,
        )
        model = LlamaForCausalLM(config).to(device, dtype).eval()
        torch.manual_seed(1)
        prompt = torch.randint(0, 200, (batch, tokens), device=device)
        with torch.no_grad():
            out = model(input_ids=prompt, use_cache=True)
        state = {"past": out.past_key_values, "token": prompt[:, :1]}

        @torch.no_grad()
        def step():
            out = model(input_ids=state["token"], past_key_values=state["past"], use_cache=True)
            state["past"] = out.past_key_values
            return out.logits

        return step

    return build


def prompts(device="cuda", tokens=64, dtype=torch.float32, width=64):
    """A build that runs a prompt through the same model."""

    def build():
        from transformers import LlamaConfig, LlamaForCausalLM

        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=200,
            hidden_size=width,
            intermediate_size=2 * width,
            num_hidden_layers=1,
            num_attention_heads=8,
            num_key_value_heads=2,
        )
        model = LlamaForCausalLM(config).to(device, dtype).eval()
        ids = torch.randint(0, 200, (1, tokens), device=device)

        @torch.no_grad()
        def step():
            return model(input_ids=ids).logits

        return step

    return build


def count(case, *names):
    """Operators of a case's program whose name ends so."""
    return sum(op.repeat for op in case.program.ops if op.name.rpartition("::")[2] in names)
