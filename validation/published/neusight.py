"""NeuSight's labels: one eager PyTorch pass in float32 on one device, as real code.

A label is what the fastest five of 25 passes of a Hugging Face model took, between two events: the
forward pass; for training the forward pass and the backward pass, each timed alone, without the
loss between them, without an optimizer's step, and with gradients that add up from pass to pass
(neusight/Tracing/trace.py, measure_e2e, of Lee et al. 2025, arXiv:2407.13853). Sizes are those of
its files (stacks/pytorch-eager.toml), and so is which head a model has (get_model); "fusion" is
torch.compile of the forward pass. Attention is "eager". Tensor cores are not used: PyTorch
multiplies float32 exactly unless it is told otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpuscope.program.models.settings import WorkloadOptions
from published.machines import machine_of
from published.rows import Row
from published.stacks import Stack


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
    compiled: bool = False

    def __call__(self) -> Callable[[], object]:
        """Model and tokens on the device -> one pass."""
        import torch
        import transformers as hf
        from torch.nn.functional import cross_entropy

        model = _model(hf, self)
        model.train(self.train)
        if self.compiled:
            model = torch.compile(model)
        model = model.to("cuda")
        words = torch.ones((self.batch, self.seq), dtype=torch.int64, device="cuda")
        if not self.train:

            def forward() -> object:
                with torch.no_grad():
                    return model(words)

            return forward

        def step() -> object:
            found = model(words)
            logits = getattr(found, "prediction_logits", None)
            logits = found.logits if logits is None else logits
            loss = cross_entropy(logits.view(-1, logits.size(-1)), words.view(-1))
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
    return hf.BertForPreTraining(config) if what.train else hf.BertForSequenceClassification(config)


def express_passes(row: Row, stack: Stack):
    """The pass that a label was measured for.

    Raises:
        ValueError: a model, a device or an option that is not there.
    """
    from published.express import Expressed

    if row.model not in stack.sizes:
        raise ValueError("a switch transformer has no program here")
    if row.devices != 1:
        raise ValueError("a job of several devices, which Accelerate's Megatron plugin prepared")
    machine = machine_of(row.hardware)
    assert row.global_batch is not None
    assert row.seq is not None
    train = row.quantity == "latency_one_iteration"
    fused = (row.said or "").startswith("option fusion")
    build = Pass(*stack.sizes[row.model], row.global_batch, row.seq, train, fused)
    return Expressed(
        row=row,
        stack=stack.name,
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
