"""Small models of transformers, as builds whose steps return the loss."""

import torch


def tiny(
    make,
    device="cuda",
    training=True,
    autocast=None,
    rows=(2, 16),
    mask=None,
    compiled=None,
    dtype=torch.float32,
):
    """A build of a model of transformers.

    Args:
        make: makes the model; called after a seed was set.
        rows: batch and tokens.
        mask: of (batch, tokens), given to the model.
        compiled: backend of torch.compile; None: as it is.
    """

    def build():
        torch.manual_seed(0)
        model = make().to(device, dtype)
        model = model.train() if training else model.eval()
        if compiled:
            model.compile(backend=compiled)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        torch.manual_seed(1)
        tokens = torch.randint(0, 90, rows, device=device)
        passed = {} if mask is None else {"attention_mask": mask(tokens)}

        def step():
            optimizer.zero_grad()
            with torch.autocast(device, dtype=autocast, enabled=autocast is not None):
                loss = model(input_ids=tokens, labels=tokens, **passed).loss
            if training:
                loss.backward()
                optimizer.step()
            return loss

        return step

    return build


def gpt2(attention="sdpa", vocabulary=100, layers=2, width=32):
    """A GPT-2 without dropout."""
    from transformers import GPT2Config, GPT2LMHeadModel

    return lambda: GPT2LMHeadModel(
        GPT2Config(
            n_layer=layers,
            n_embd=width,
            n_head=4,
            n_positions=2048,
            vocab_size=vocabulary,
            attn_implementation=attention,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
        )
    )


def bert(attention="sdpa"):
    """A BERT without dropout."""
    from transformers import BertConfig, BertForMaskedLM

    return lambda: BertForMaskedLM(
        BertConfig(
            num_hidden_layers=2,
            hidden_size=32,
            num_attention_heads=4,
            intermediate_size=64,
            vocab_size=100,
            attn_implementation=attention,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )


def llama(layers=2):
    """A Llama."""
    from transformers import LlamaConfig, LlamaForCausalLM

    return lambda: LlamaForCausalLM(
        LlamaConfig(
            num_hidden_layers=layers,
            hidden_size=64,
            intermediate_size=128,
            vocab_size=100,
            num_attention_heads=4,
            num_key_value_heads=2,
        )
    )


def olmoe(experts="eager"):
    """A mixture of 4 experts, two a token."""
    from transformers import OlmoeConfig, OlmoeForCausalLM

    return lambda: OlmoeForCausalLM(
        OlmoeConfig(
            num_hidden_layers=2,
            hidden_size=64,
            intermediate_size=64,
            vocab_size=100,
            num_attention_heads=4,
            num_key_value_heads=4,
            num_experts=4,
            num_experts_per_tok=2,
            experts_implementation=experts,
        )
    )
