"""Parameter counts of the built-in models, counted on torch's meta device.

Published counts: model cards on the Hugging Face hub, torchvision's tables, the papers.
"""

from typing import Any

import pytest

from gpuscope.program.models import WorkloadOptions, find, model_names
from gpuscope.program.models.network_spec import NetworkSpec
from gpuscope.program.models.settle import settle
from gpuscope.program.models.transformers_spec import TransformersSpec

torch = pytest.importorskip("torch")

PUBLISHED = {
    "gpt2": 124_439_808,
    "gpt2-xl": 1_557_611_200,
    "bert-base": 109_514_298,
    "t5-base": 222_903_552,
    "llama-2-7b": 6_738_415_616,
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
    "llama-3.2-1b": 1_235_814_400,
    "mistral-7b": 7_248_023_552,
    "mistral-nemo-12b": 12_247_782_400,
    "mixtral-8x7b": 46_702_792_704,
    "qwen2.5-7b": 7_615_616_512,
    "qwen3-30b-a3b": 30_532_122_624,
    "gemma-2-9b": 9_241_705_984,
    "phi-3-mini": 3_821_079_552,
    "whisper-large-v3": 1_543_490_560,
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    "resnet152": 60_192_808,
    "vit-b-16": 86_567_656,
    "vit-l-16": 304_326_632,
    "convnext-tiny": 28_589_128,
    "convnext-base": 88_591_464,
    "swin-t": 28_288_354,
    "swin-b": 87_768_224,
    "sd15-unet": 859_520_964,
}


def count(name: str) -> int:
    """Parameters of the model, each tied weight once."""
    pytest.importorskip("transformers")
    model = find(name)
    model.load()
    settings = settle(model, WorkloadOptions(device="meta"))
    made = network_of(name, settings)
    return sum(p.numel() for p in made.parameters())


def network_of(name: str, settings: Any) -> Any:
    from gpuscope.program.models import diffusion, dlrm, lstm
    from gpuscope.program.models.building.transformers_models import make_model
    from gpuscope.program.models.building.vision import make_network

    own = {
        "sd15-unet": diffusion._UNET,
        "dit-xl-2": diffusion._DIT,
        "lstm": lstm._SPEC,
        "dlrm": dlrm._SPEC,
    }
    spec = own.get(name) or getattr(find(name).build, "__self__", None)
    if isinstance(spec, TransformersSpec):
        return make_model(spec, settings)
    assert isinstance(spec, NetworkSpec)
    return make_network(spec.make(settings), settings)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_count(name: str) -> None:
    assert count(name) == PUBLISHED[name] == find(name).parameters


@pytest.mark.parametrize("name", [m.name for m in model_names() if m.name not in PUBLISHED])
def test_listed_count_is_the_models_own(name: str) -> None:
    assert count(name) == find(name).parameters


def test_lstm_by_hand() -> None:
    gates = 4 * (1500 * 1500 * 2 + 2 * 1500)  # torch's LSTM has two biases a gate
    assert count("lstm") == 10000 * 1500 + 2 * gates + 1500 * 10000 + 10000


def test_dlrm_by_hand() -> None:
    bottom = 13 * 512 + 512 + 512 * 256 + 256 + 256 * 64 + 64 + 64 * 16 + 16
    pairs = 27 * 26 // 2
    top = (16 + pairs) * 512 + 512 + 512 * 256 + 256 + 256 + 1
    assert count("dlrm") == 33_762_577 * 16 + bottom + top


def test_depth_adds_one_block() -> None:
    model = find("llama-3.1-8b")
    model.load()

    def parameters(layers: int) -> int:
        settings = settle(model, WorkloadOptions(device="meta", layers=layers))
        return sum(p.numel() for p in network_of(model.name, settings).parameters())

    block = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336 + 2 * 4096
    assert parameters(2) - parameters(1) == block
    assert parameters(32) - parameters(31) == block
