"""Precision, recomputation, initialisation, and the families with an encoder, on the CPU."""

import dataclasses
import math
from collections.abc import Iterator

import pytest
from narrow_models import narrow, small, step_of

from gpuscope.program.models import find

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small operators are faster on one thread, above all on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


multiplies_float8 = pytest.mark.skipif(
    not torch._C._dispatch_has_kernel_for_dispatch_key("aten::_scaled_mm", "CPU"),
    reason="this PyTorch (2.6) multiplies no float8 on a processor",
)


@pytest.mark.parametrize(
    "dtype", ["bfloat16", "float16", "tf32", pytest.param("fp8", marks=multiplies_float8)]
)
def test_precisions_train(dtype: str) -> None:
    torch.manual_seed(0)
    step = step_of("llama-3.1-8b", dtype=dtype, optimizer="adamw-loop", batch=1)
    losses = [step().item() for _ in range(6)]
    assert all(math.isfinite(loss) for loss in losses)
    assert losses[-1] < losses[0]


@multiplies_float8
def test_float8_is_close_to_bfloat16() -> None:
    from gpuscope.program.models.building.float8 import Float8InferenceLinear, Float8TrainingLinear

    torch.manual_seed(0)
    linear = torch.nn.Linear(64, 32, bias=False, dtype=torch.bfloat16)
    x = torch.randn(16, 64, dtype=torch.bfloat16, requires_grad=True)
    exact = linear(x)
    (exact_grad,) = torch.autograd.grad(exact.float().square().sum(), x)
    trained = Float8TrainingLinear(linear)
    got = trained(x)
    (got_grad,) = torch.autograd.grad(got.float().square().sum(), x)
    stored = Float8InferenceLinear(linear)
    assert stored.weight.dtype == torch.float8_e4m3fn
    for close, true in ((got, exact), (stored(x), exact), (got_grad, exact_grad)):
        error = (close.float() - true.float()).norm() / true.float().norm()
        assert 0 < error.item() < 0.1  # 3 mantissa bits round by up to 1/16


def test_mixed_precision_keeps_weights_in_float32() -> None:
    from gpuscope.program.models.building.transformers_models import make_model

    find("gpt2").load()
    settings = small("gpt2")
    assert settings.amp
    model = make_model(narrow("gpt2"), settings)
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert {p.dtype for p in make_model(narrow("gpt2"), small("gpt2", amp=False)).parameters()} == {
        torch.bfloat16
    }


@pytest.mark.parametrize("name", ["gpt2", "llama-3.1-8b"])
def test_recomputation_changes_no_loss(name: str) -> None:
    def losses(checkpointing: bool) -> list[float]:
        torch.manual_seed(0)
        step = step_of(name, dtype="float32", checkpointing=checkpointing, optimizer="sgd-plain")
        torch.manual_seed(1)
        return [step().item() for _ in range(3)]

    assert losses(True) == pytest.approx(losses(False), rel=1e-5)


def test_real_weights_are_initialised() -> None:
    from gpuscope.program.models.building.transformers_models import make_model

    find("llama-3.1-8b").load()
    model = make_model(narrow("llama-3.1-8b"), small("llama-3.1-8b"))
    for name, parameter in model.named_parameters():
        assert bool(parameter.isfinite().all()), name
        assert parameter.detach().abs().max().item() > 0, name
        if parameter.ndim == 2:
            assert parameter.detach().float().std().item() == pytest.approx(0.02, rel=0.2), name


def test_fakes_skip_initialisation_and_keep_ties() -> None:
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    from gpuscope.program.models.building.transformers_models import make_model

    find("gpt2").load()
    with FakeTensorMode():
        model = make_model(find("gpt2").build.__self__, small("gpt2"))  # type: ignore[attr-defined]
    assert all(isinstance(p, FakeTensor) for p in model.parameters())
    assert sum(p.numel() for p in model.parameters()) == 124_439_808
    assert torch.nn.init.normal_.__name__ == "normal_"  # put back


def test_encoder() -> None:
    find("bert-base").load()
    spec = find("bert-base").build.__self__  # type: ignore[attr-defined]
    values = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "vocab_size": 64,
        "max_position_embeddings": 32,
    }
    spec = dataclasses.replace(spec, values=values)
    torch.manual_seed(0)
    step = spec.build(small("bert-base", dtype="float32"))
    losses = [step().item() for _ in range(5)]
    assert losses[-1] < losses[0]
    assert spec.build(small("bert-base", task="inference"))().shape == (2, 16, 64)


SEQ2SEQ = {
    "t5-small": {
        "vocab_size": 64,
        "d_model": 32,
        "d_ff": 64,
        "d_kv": 8,
        "num_layers": 2,
        "num_decoder_layers": 2,
        "num_heads": 4,
        "decoder_start_token_id": 0,
        "dropout_rate": 0.0,
    },
    "whisper-tiny": {
        "vocab_size": 64,
        "num_mel_bins": 8,
        "d_model": 32,
        "encoder_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_layers": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64,
        "max_source_positions": 20,
        "max_target_positions": 32,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 1,
        "decoder_start_token_id": 2,
    },
}


@pytest.mark.parametrize("name", SEQ2SEQ)
def test_encoder_and_decoder(name: str) -> None:
    find(name).load()
    spec = find(name).build.__self__  # type: ignore[attr-defined]
    spec = dataclasses.replace(spec, values=SEQ2SEQ[name])
    torch.manual_seed(0)
    step = spec.build(small(name, dtype="float32", optimizer="adamw-loop"))
    losses = [step().item() for _ in range(6)]
    assert losses[-1] < losses[0]
    assert spec.build(small(name, task="prefill"))().shape == (2,)
    decode = spec.build(small(name, task="decode", dtype="float32"))
    first = decode()
    assert torch.equal(decode(), first)
    assert torch.equal(decode(), first)
