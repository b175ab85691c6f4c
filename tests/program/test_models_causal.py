"""Decoder-only families, really run on the CPU in a narrow form of each."""

import math
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any

import pytest
from narrow_models import NARROW, narrow, small, step_of

from gpuscope.capturing import capture
from gpuscope.program.models import find

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from gpuscope.program.models.building.caches import entries, heads_shapes, probed_shapes  # noqa: E402

TRANSFORMERS = tuple(int(part) for part in version("transformers").split(".")[:2])


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small operators are faster on one thread, above all on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", NARROW)
def test_training_lowers_the_loss(name: str) -> None:
    torch.manual_seed(0)
    step = step_of(name, optimizer="adamw-loop", dtype="float32")
    losses = [step().item() for _ in range(4)]
    assert losses[0] == pytest.approx(math.log(64), rel=0.15)  # random weights know nothing
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("name", NARROW)
def test_prefill_gives_one_token_a_sequence(name: str) -> None:
    tokens = step_of(name, task="prefill")()
    assert tokens.shape == (2,)
    assert int(tokens.max()) < 64


@pytest.mark.parametrize("name", NARROW)
def test_decoding_is_steady(name: str) -> None:
    context = 4 if "sliding_window" in NARROW[name] else 16  # a full window moves on by a token
    step = step_of(name, task="decode", dtype="float32", context=context)
    first = step()
    assert first.shape == (2,)
    for _ in range(3):
        assert torch.equal(step(), first)  # a cache that grew would change the answer


def cache_of(step: Callable[[], Any]) -> Any:
    """The cache inside a decode step's closures."""
    pending: list[Any] = [step]
    while pending:
        function = pending.pop()
        for cell in getattr(function, "__closure__", None) or ():
            value = cell.cell_contents
            if hasattr(value, "get_seq_length") and hasattr(value, "update"):
                return value
            if callable(value) and not isinstance(value, torch.nn.Module):
                pending.append(value)
    raise AssertionError("no cache")


@pytest.mark.parametrize(("name", "held"), [("llama-3.1-8b", 16), ("phi-3-mini", 7)])
def test_cache_holds_the_context_or_the_window(name: str, held: int) -> None:
    if name == "phi-3-mini" and TRANSFORMERS < (4, 56):
        held = 16  # before, a window did not shorten the cache
    step = step_of(name, task="decode")
    cache = cache_of(step)
    for _ in range(2):
        step()
        keys, values = entries(cache)[0]
        assert keys.shape[-2] == values.shape[-2] == held
        assert cache.get_seq_length() == 16


@pytest.mark.skipif(TRANSFORMERS < (5, 0), reason="keys and values of every head are cached there")
def test_latent_attention_caches_latents() -> None:
    keys, values = entries(cache_of(step_of("deepseek-v3", task="decode")))[0]
    assert keys.shape == (2, 1, 16, 16)  # one head of kv_lora_rank
    assert values.shape == (2, 1, 16, 8)  # one rotary part


@pytest.mark.parametrize("name", ["llama-3.1-8b", "qwen3-8b"])
def test_shapes_from_the_configuration_are_those_of_a_real_cache(name: str) -> None:
    from gpuscope.program.models.building.transformers_models import make_model

    find(name).load()
    model = make_model(narrow(name), small(name, task="decode"))
    token = torch.zeros(2, 1, dtype=torch.int64)
    assert heads_shapes(model.config, 2) == probed_shapes(model, token)


def test_a_model_without_a_loss_of_its_own_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    """transformers warns where the table of losses has no name for a model, as for GPT-2."""
    from transformers import GPT2Config, GPT2LMHeadModel
    from transformers.utils import logging

    def build() -> Any:
        model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=64, n_head=2)).cuda()
        tokens = torch.randint(0, 99, (1, 8), device="cuda")
        return lambda: model(tokens, labels=tokens).loss.backward()

    logging.get_logger("transformers.modeling_utils").warning_once.cache_clear()
    logging.enable_propagation()
    try:
        capture(build)
    finally:
        logging.disable_propagation()
    assert "loss_type" not in caplog.text
