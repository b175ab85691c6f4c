"""NeuSight's labels: one eager PyTorch pass in float32 on one device, as real code.

A label is the forward pass, or forward and backward, of a Hugging Face model without an optimizer's
step (Lee et al. 2025, arXiv:2407.13853). Attention is in steps: the models of that time had no
other. Tensor cores are not used: PyTorch multiplies float32 exactly unless it is told otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpuscope.program.models.settings import WorkloadOptions
from published.machines import MACHINES
from published.rows import Row

_SIZES = {
    # layers, hidden, heads (config.json of openai-community/gpt2-large, facebook/opt-1.3b,
    # google-bert/bert-large-uncased; Brown et al. 2020, table 2.1, with 64-wide heads for XL)
    "gpt2_large": ("gpt2", 36, 1280, 20),
    "gpt3_xl": ("gpt2", 24, 2048, 32),
    "gpt3_27": ("gpt2", 32, 2560, 32),
    "opt_13": ("opt", 24, 2048, 32),
    "bert_large": ("bert", 24, 1024, 16),
}


@dataclass(frozen=True, slots=True)
class Pass:
    """A model's pass, to be captured: calling it builds the model and gives the step."""

    family: str
    layers: int
    hidden: int
    heads: int
    batch: int
    seq: int
    train: bool

    def __call__(self) -> Callable[[], object]:
        """Model and tokens on the device -> one pass."""
        import torch
        import transformers as hf

        model = _model(hf, self).to("cuda")
        model.train(self.train)
        words = torch.randint(0, 1000, (self.batch, self.seq), device="cuda")
        if not self.train:

            def forward() -> object:
                with torch.no_grad():
                    return model(input_ids=words)

            return forward

        def step() -> object:
            model.zero_grad(set_to_none=True)
            loss = model(input_ids=words, labels=words).loss
            loss.backward()
            return loss

        return step


def _model(hf, what: Pass):
    deep = {"attn_implementation": "eager"}
    if what.family == "gpt2":
        config = hf.GPT2Config(
            n_layer=what.layers,
            n_embd=what.hidden,
            n_head=what.heads,
            n_positions=max(1024, what.seq),
            use_cache=False,
            **deep,
        )
        return hf.GPT2LMHeadModel(config)
    if what.family == "opt":
        config = hf.OPTConfig(
            num_hidden_layers=what.layers,
            hidden_size=what.hidden,
            ffn_dim=4 * what.hidden,
            num_attention_heads=what.heads,
            word_embed_proj_dim=what.hidden,
            use_cache=False,
            **deep,
        )
        return hf.OPTForCausalLM(config)
    config = hf.BertConfig(
        num_hidden_layers=what.layers,
        hidden_size=what.hidden,
        intermediate_size=4 * what.hidden,
        num_attention_heads=what.heads,
        vocab_size=30522,
        **deep,
    )
    return hf.BertForMaskedLM(config)


def express_neusight(row: Row):
    """The pass that a label was measured for.

    Raises:
        ValueError: a model, a device or an option that is not there.
    """
    from published.express import Expressed

    if row.model not in _SIZES:
        raise ValueError("a switch transformer has no program here")
    if row.devices != 1 or (row.said or "").startswith("option fusion"):
        raise ValueError(
            "a job of several devices, or hand-fused kernels, that the labels do not describe"
        )
    machine = MACHINES.get(row.hardware)
    if machine is None:
        raise ValueError(f"the catalogue has no {row.hardware}")
    assert row.global_batch is not None
    assert row.seq is not None
    train = row.quantity == "latency_one_iteration"
    build = Pass(*_SIZES[row.model], row.global_batch, row.seq, train)
    return Expressed(
        row=row,
        workload=build,
        machine=machine,
        devices=1,
        options=WorkloadOptions(),
        step_s=row.value / 1e3,
        tokens=row.global_batch * row.seq,
        assumed=("float32 without tensor cores", "no optimizer's step")
        if train
        else ("float32 without tensor cores",),
    )
