"""Sizes of decoders: parameter counts by hand, as published, and as the network really has."""

from __future__ import annotations

import pytest
import tiny_decoders
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuscope.errors import InvalidValueError, UnsupportedError
from gpuscope.program.models import find, model_names
from gpuscope.program.models.parallel.configurations import size_of
from gpuscope.program.models.parallel.options import Software
from gpuscope.program.models.parallel.published import PUBLISHED
from gpuscope.program.models.parallel.size import Experts, TransformerSize


def decoders() -> list[str]:
    """Built-in models that have a ready-made parallel program."""
    found = []
    for entry in model_names():
        size = find(entry.name).size
        try:
            found += [entry.name] if size is not None and size() else []
        except UnsupportedError:
            continue
    return found


def test_the_families_that_fit_are_there() -> None:
    families = {find(name).family for name in decoders()}
    assert families >= {
        "Llama",
        "GPT-2",
        "Mistral",
        "Mixtral",
        "Qwen2.5",
        "Qwen3",
        "Phi",
        "DeepSeek",
    }


@pytest.mark.parametrize("name", decoders())
def test_parameters_are_the_published_number(name: str) -> None:
    model = find(name)
    assert model.size is not None
    assert model.size().parameters == model.parameters


def gpt3(layers: int, hidden: int, heads: int, vocabulary: int, context: int) -> TransformerSize:
    return TransformerSize(
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head=hidden // heads,
        ffn=4 * hidden,
        vocabulary=vocabulary,
        context=context,
        norm="layer",
        gated=False,
        activation="gelu",
        positions="learned",
        tied=True,
        qkv_bias=True,
        out_bias=True,
        mlp_bias=True,
    )


def test_gpt_3_by_the_formula_of_megatron() -> None:
    """P = 12 l h^2 (1 + 13/(12 h) + (V + s)/(12 l h)): Narayanan et al. 2021, equation 2, which
    leaves out the two tensors of the last norm."""
    for layers, hidden, heads, billions in ((96, 12288, 96, 174.6), (128, 25600, 160, 1008.0)):
        size = gpt3(layers, hidden, heads, 51200, 2048)
        by_hand = 12 * layers * hidden**2 + 13 * layers * hidden + (51200 + 2048) * hidden
        assert size.parameters == by_hand + 2 * hidden
        assert size.parameters / 1e9 == pytest.approx(billions, rel=1e-3)


def test_parameters_that_work_on_a_token() -> None:
    """Mixtral 12.9 billion (Jiang et al. 2024), DeepSeek-V3 37 billion (its report)."""
    for name, billions in (("mixtral-8x7b", 12.9), ("deepseek-v3", 37.5)):
        made = find(name).size
        assert made is not None
        assert made().active_parameters / 1e9 == pytest.approx(billions, rel=0.01)
    dense = find("llama-3.1-8b").size
    assert dense is not None
    assert dense().active_parameters == dense().parameters


@pytest.mark.parametrize(
    ("name", "billions", "active"),
    [
        ("nemotron-3-nano-30b-a3b", 31.58, 3.58),  # its model card: 31.6 and 3.6 billion
        ("nemotron-h-8b", 8.10, 8.10),  # Nemotron-H, arXiv:2504.03624
        ("nemotron-h-56b", 56.3, 56.3),
        ("nemotron-nano-9b-v2", 8.89, 8.89),  # arXiv:2508.14444
        ("nemotron-nano-12b-v2", 12.31, 12.31),
    ],
)
def test_hybrids_have_the_published_parameters(name: str, billions: float, active: float) -> None:
    size = PUBLISHED[name]
    assert size.parameters / 1e9 == pytest.approx(billions, rel=1e-3)
    assert size.active_parameters / 1e9 == pytest.approx(active, rel=1e-3)


def test_of_a_hybrid_only_some_blocks_attend() -> None:
    """Nemotron-H 8B: 4 of 52 (its paper, table 1), 24 of them feed-forward parts."""
    size = PUBLISHED["nemotron-h-8b"]
    assert size.attended(8192) == 4 * 8192 / 2
    assert sum(size.pattern[n] == "-" for n in range(size.layers)) == 24
    assert size.deep(5).pattern == "M-M-M"
    assert size.deep(104).pattern == size.pattern * 2


@pytest.mark.parametrize("kind", tiny_decoders.KINDS)
@pytest.mark.parametrize("fused", [False, True])
def test_the_network_has_as_many_parameters_as_its_size_says(kind: str, fused: bool) -> None:
    torch = pytest.importorskip("torch")
    from gpuscope.program.models.networks.transformer import Transformer

    size = tiny_decoders.KINDS[kind]
    with torch.device("meta"):
        network = Transformer(
            size, Software(fused_projections=fused, fused_norm=not fused), tokens=16
        )
    assert sum(p.numel() for p in network.parameters()) == size.parameters


def test_parts_of_the_network_are_the_whole_of_it() -> None:
    torch = pytest.importorskip("torch")
    from gpuscope.program.models.networks.transformer import Transformer

    size = tiny_decoders.LLAMA
    with torch.device("meta"):
        parts = [
            Transformer(size, Software(), 16, layers=range(1), last=False),
            Transformer(size, Software(), 16, layers=range(1, 2), first=False),
        ]
    assert sum(p.numel() for part in parts for p in part.parameters()) == size.parameters


@given(layers=st.integers(1, 64), more=st.integers(1, 8))
@settings(max_examples=30, deadline=None)
def test_every_layer_adds_its_own_parameters(layers: int, more: int) -> None:
    size = tiny_decoders.MIXTURE
    added = sum(size.layer_parameters(layers + i) for i in range(more))
    assert size.deep(layers + more).parameters == size.deep(layers).parameters + added


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"layers": 0}, "layers = 0"),
        ({"heads": 6, "kv_heads": 4}, "6 query heads cannot share 4"),
        ({"experts": Experts(count=4, chosen=5, ffn=8)}, "5 of 4 experts"),
        ({"norm": "batch"}, "no 'batch'"),
        ({"activation": "tanh"}, "no 'tanh'"),
        ({"pattern": "M"}, "'M' is no pattern of 2 blocks"),
        ({"pattern": "MX"}, "'MX' is no pattern"),
    ],
)
def test_sizes_that_cannot_be(changes: dict, said: str) -> None:
    sizes = {
        "layers": 2,
        "hidden": 32,
        "heads": 4,
        "kv_heads": 4,
        "head": 8,
        "ffn": 64,
        "vocabulary": 64,
    }
    with pytest.raises(InvalidValueError, match=said):
        TransformerSize(**{**sizes, **changes})


def test_an_unknown_architecture_lists_the_known_ones() -> None:
    with pytest.raises(UnsupportedError, match=r"gpt2, .*llama, .*mistral, mixtral"):
        size_of("mamba", {})
