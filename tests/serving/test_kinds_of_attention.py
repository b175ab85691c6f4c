"""Windows, states, chosen keys: what they cost, and what room they leave."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import pytest

from gpuscope.errors import UnsupportedError
from gpuscope.hardware import device, parse_target
from gpuscope.program.models.parallel.checks import check
from gpuscope.program.models.parallel.configurations import size_of
from gpuscope.program.models.parallel.options import Parallelism
from gpuscope.program.models.parallel.published import PUBLISHED
from gpuscope.program.models.parallel.size import Window
from gpuscope.serving.engine import engine
from gpuscope.serving.iteration import iteration_cost
from gpuscope.serving.memory import KvMemory, Pools, kv_memory, state_bytes
from gpuscope.serving.prices import pairs
from gpuscope.serving.quantization import quantization
from gpuscope.serving.simulate import deploy

H200, B200 = device("h200"), device("b200")
OSS, QWEN, GLM = (PUBLISHED[n] for n in ("gpt-oss-120b", "qwen3.5-397b-a17b", "glm-5"))


def room(name: str, tp: int, dtype: str, **how: object) -> KvMemory:
    return kv_memory(PUBLISHED[name], quantization(dtype, B200), B200, tp=tp, **how)  # type: ignore[arg-type]


def test_layers_are_what_configurations_say() -> None:
    assert sum(map(OSS.is_near, range(OSS.layers))) == 18
    assert not OSS.is_near(1)
    assert sum(map(QWEN.is_linear, range(QWEN.layers))) == 45
    assert [QWEN.is_linear(at) for at in range(4)] == [True, True, True, False]
    gemma = {"hidden_size": 3840, "num_attention_heads": 16, "num_hidden_layers": 48}
    gemma |= {"intermediate_size": 15360, "sliding_window": 1024}
    size = size_of("gemma3_text", gemma)
    assert sum(map(size.is_near, range(48))) == 40
    mistral = {**gemma, "sliding_window": None}
    assert size_of("mistral", mistral).window is None
    listed = {**gemma, "layer_types": ["full_attention"] * 48}
    assert size_of("gemma3_text", listed).window is None


def test_windows_read_no_more_than_their_tokens() -> None:
    """From 2,048 keys to 8,192 only every second block of gpt-oss reads more."""
    kept, cluster = quantization("mxfp4", B200), parse_target("b200")
    cost = iteration_cost(OSS, kept, cluster)
    whole = iteration_cost(replace(OSS, window=None), kept, cluster)
    assert cost.reach == 128
    more, all_more = (
        each.decode_attention_s(64, 64 * 8192.0) - each.decode_attention_s(64, 64 * 2048.0)
        for each in (cost, whole)
    )
    assert more == pytest.approx(all_more / 2, rel=0.02)
    long = cost.device_s(8192, 8192 * 8193 / 2, 1, 0, 0.0)
    assert long < whole.device_s(8192, 8192 * 8193 / 2, 1, 0, 0.0)


def test_pairs_of_a_window_are_counted() -> None:
    for length, reach in ((5, 8), (8, 8), (20, 8), (9, 1)):
        assert pairs(length, reach) == sum(min(at + 1, reach) for at in range(length))


def test_a_state_costs_the_same_at_any_length_and_goes_by_tokens() -> None:
    cost = iteration_cost(QWEN, quantization("fp8", B200), parse_target("8xb200"), 8, 8, 1.0)
    short, long = (cost.decode_attention_s(64, 64.0 * keys) for keys in (2048, 32768))
    full = replace(QWEN, linear=None)
    other = iteration_cost(full, quantization("fp8", B200), parse_target("8xb200"), 8, 8, 1.0)
    plain = [other.decode_attention_s(64, 64.0 * keys) for keys in (2048, 32768)]
    assert long - short == pytest.approx((plain[1] - plain[0]) / 4, rel=0.02)
    assert cost.reach == 1
    one, two, four = (cost.near_s(float(tokens)) for tokens in (4096, 8192, 16384))
    assert four - two == pytest.approx(2 * (two - one), rel=0.01)


def test_chosen_keys_bound_attention_but_not_the_scores() -> None:
    cost = iteration_cost(GLM, quantization("fp8", B200), parse_target("8xb200"), 8, 1, 1.0)
    dense = iteration_cost(
        replace(GLM, sparse=None), quantization("fp8", B200), parse_target("8xb200"), 8, 1, 1.0
    )
    assert cost.reach == 2048
    assert cost.decode_attention_s(64, 64 * 131072.0) < dense.decode_attention_s(64, 64 * 131072.0)
    assert cost.decode_attention_s(64, 64 * 32768.0) > cost.decode_attention_s(64, 64 * 8192.0)


def test_groups_of_windows_share_one_pool() -> None:
    """vLLM: gpt-oss has two groups of 18; a window of 128 is nine blocks of 16."""
    found = room("gpt-oss-120b", 1, "mxfp4")
    assert found.token_bytes == 18 * 2 * 8 * 64 * 2
    assert found.beside is not None
    assert (found.beside.groups, found.beside.most, found.beside.state) == (1, 9, 0)
    assert found.beside.of(64, 16) == 4
    assert found.beside.of(100_000, 16) == 9
    five = replace(OSS, layers=30, window=Window(tokens=1024, every=6))
    assert kv_memory(five, quantization("mxfp4", B200), B200).beside.groups == 5  # type: ignore[union-attr]
    apart = room("gpt-oss-120b", 1, "mxfp4", pools=Pools(window_share=0.8))
    assert apart.beside is None
    assert apart.token_bytes == pytest.approx(1.8 * found.token_bytes)


def test_states_take_blocks_or_a_pool_of_their_own() -> None:
    """45 states of 64 heads of 128 by 128 in float32, and three tokens of 12,288 channels."""
    assert state_bytes(QWEN, 1) == 45 * (64 * 128 * 128 * 4 + 12288 * 3 * 2)
    shared = room("qwen3.5-397b-a17b", 8, "fp8")
    assert shared.token_bytes == 15 * 2 * 1 * 256 * 2
    assert shared.beside is not None
    assert shared.beside.state == ceil(state_bytes(QWEN, 8) / (16 * shared.token_bytes))
    own = room("qwen3.5-397b-a17b", 8, "fp8", pools=Pools(state_share=0.9 / 1.9))
    assert own.beside is None
    assert own.max_sequences == int(own.room_bytes * 0.9 / (3 * state_bytes(QWEN, 8)))
    served = deploy("q", QWEN, parse_target("8xb200"), engine("sglang"), dtype="fp8", ep=8)
    assert served.limits.max_sequences <= 1024


def test_an_indexer_has_a_key_beside_the_latent() -> None:
    found = room("glm-5", 8, "fp8", cache_bytes=1.0)
    assert found.token_bytes == 78 * (512 + 64 + 128 + 4)


def test_four_bits_are_the_experts_alone() -> None:
    """gpt-oss-120b in MXFP4 is published with 65 GB."""
    assert room("gpt-oss-120b", 1, "mxfp4").weights_bytes == pytest.approx(65e9, rel=0.03)


def test_such_a_model_has_no_parallel_training_program() -> None:
    with pytest.raises(UnsupportedError, match="linear or sparse"):
        check(QWEN, 1024, Parallelism())
