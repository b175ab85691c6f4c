"""Tests of `transforms.fixed_cache`: the same tokens over memory that stays."""

from __future__ import annotations

import gc
import importlib.util
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from gpuscope.advice.changes.hooks.live import Live  # noqa: E402
from gpuscope.advice.registry import plan  # noqa: E402

FILE = Path(__file__).parents[3] / "data" / "decode_growing.py"


def script() -> Any:
    spec = importlib.util.spec_from_file_location("decode_growing", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def steps(build: Any, count: int) -> list[Any]:
    step = build()
    return [step().clone() for _ in range(count)]


@pytest.mark.parametrize(
    "names", [("static-cache",), ("static-cache", "grouped-attention", "merged-projections")]
)
def test_the_logits_are_those_of_the_growing_cache(names: tuple[str, ...]) -> None:
    usual = steps(script().build, 6)
    live = Live(plan(names))
    changed = steps(live.wrap(script().build), 6)
    live.close()
    for one, other in zip(usual, changed, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_a_prompt_with_padding_gives_the_same_tokens() -> None:
    usual = steps(script().build_whole, 2)
    live = Live(plan(["static-cache", "grouped-attention"]))
    changed = steps(live.wrap(script().build_whole), 2)
    live.close()
    assert all(torch.equal(a, b) for a, b in zip(usual, changed, strict=True))


def test_more_tokens_than_there_is_room_for_get_more_room(monkeypatch: Any) -> None:
    from gpuscope.advice.changes.transforms import fixed_cache

    monkeypatch.setattr(fixed_cache, "ROOM", 4)
    monkeypatch.setattr(fixed_cache, "_ROUND", 4)
    usual = steps(script().build, 14)
    live = Live(plan(["static-cache"]))
    changed = steps(live.wrap(script().build), 14)
    live.close()
    for one, other in zip(usual, changed, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def _cache(tokens: int) -> Any:
    from transformers.cache_utils import DynamicCache

    cache = DynamicCache()
    torch.manual_seed(0)
    cache.update(torch.randn(1, 2, tokens, 4), torch.randn(1, 2, tokens, 4), 0)
    return cache


def _call(memory: Any, cache: Any) -> None:
    def model(input_ids: Any, past_key_values: Any) -> None:
        past_key_values.update(torch.ones(1, 2, 1, 4), torch.ones(1, 2, 1, 4), 0)

    with torch.no_grad():
        memory.wrap(None, model)(input_ids=torch.zeros(1, 1), past_key_values=cache)


def test_what_was_held_stays_and_what_is_cut_is_taken_back() -> None:
    from gpuscope.advice.changes.transforms.fixed_cache import FixedMemory, fixed

    memory, cache = FixedMemory(), _cache(5)
    before = cache.layers[0].keys.clone()
    _call(memory, cache)
    (layer,) = fixed(cache)
    assert cache.get_seq_length() == 6
    assert torch.equal(layer.keys[..., :5, :], before)
    assert bool((layer.keys[..., 5, :] == 1).all())
    layer.keys, layer.values = layer.keys[..., :5, :], layer.values[..., :5, :]
    _call(memory, cache)
    assert cache.get_seq_length() == 6
    assert layer.keys.shape[-2] == layer.max_cache_len
    cache.crop(-2)
    assert cache.get_seq_length() == 4
    _call(memory, cache)
    assert int(layer.cumulative_length) == 5


def test_memory_of_a_cache_that_is_gone_is_used_again() -> None:
    from gpuscope.advice.changes.transforms.fixed_cache import FixedMemory, fixed

    memory, first = FixedMemory(), _cache(5)
    _call(memory, first)
    address = fixed(first)[0].keys.data_ptr()
    second = _cache(5)
    _call(memory, second)
    assert fixed(second)[0].keys.data_ptr() != address
    del first
    gc.collect()
    third = _cache(7)
    _call(memory, third)
    assert fixed(third)[0].keys.data_ptr() == address
    assert third.get_seq_length() == 8


def test_training_and_prompts_are_left_alone() -> None:
    from gpuscope.advice.changes.transforms.fixed_cache import FixedMemory, fixed

    cache = _cache(5)
    memory = FixedMemory()
    called = memory.wrap(None, lambda **_: None)
    called(input_ids=torch.zeros(1, 1), past_key_values=cache)  # gradients are on
    with torch.no_grad():
        called(input_ids=torch.zeros(1, 3), past_key_values=cache)
    assert not fixed(cache)


def test_a_window_of_tokens_is_refused() -> None:
    from transformers.cache_utils import Cache, DynamicCache, DynamicSlidingWindowLayer

    from gpuscope.advice.changes.transforms.fixed_cache import FixedMemory
    from gpuscope.errors import UnsupportedError

    cache = DynamicCache()
    Cache.__init__(cache, layers=[DynamicSlidingWindowLayer(sliding_window=4)])
    cache.update(torch.ones(1, 2, 5, 4), torch.ones(1, 2, 5, 4), 0)
    with pytest.raises(UnsupportedError, match="DynamicSlidingWindowLayer"):
        _call(FixedMemory(), cache)
