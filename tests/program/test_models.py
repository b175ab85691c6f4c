"""The list of built-in models: names, sizes, and what listing costs."""

import subprocess
import sys

import pytest

from gpuscope.errors import UnknownNameError
from gpuscope.program.models import find, model_names
from gpuscope.program.models.registry import Model

WANTED = """
gpt2 gpt2-medium gpt2-large gpt2-xl bert-base bert-large t5-small t5-base t5-large
llama-3.2-1b llama-3.2-3b llama-3.1-8b llama-3.1-70b llama-3.1-405b
llama-2-7b llama-2-13b llama-2-70b mistral-7b mistral-nemo-12b mixtral-8x7b mixtral-8x22b
qwen2.5-0.5b qwen2.5-72b qwen3-0.6b qwen3-32b qwen3-30b-a3b qwen3-235b-a22b deepseek-v3
gemma-2-2b gemma-2-9b gemma-2-27b gemma-3-1b gemma-3-27b phi-3-mini phi-4
resnet18 resnet34 resnet50 resnet101 resnet152 vit-b-16 vit-l-16 convnext-tiny convnext-base
swin-t swin-s swin-b sd15-unet dit-xl-2 whisper-tiny whisper-large-v3 lstm dlrm
""".split()


def test_listing_imports_no_torch() -> None:
    code = (
        "import sys; from gpuscope.program.models import model_names; "
        "from gpuscope.program.workload import resolve, WorkloadOptions; "
        "assert len(model_names()) > 40; "
        "print([m for m in ('torch', 'transformers', 'numpy') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize("name", WANTED)
def test_every_promised_model_is_found_by_its_name(name: str) -> None:
    assert find(name).name == name


def test_listing_is_complete_and_described() -> None:
    listed = model_names()
    assert {m.name for m in listed} >= set(WANTED)
    assert len({m.name for m in listed}) == len(listed)
    for line in listed:
        assert line.description
        assert "\n" not in line.description
        assert len(line.name) + len(line.description) < 90  # one line of a listing
        assert line.tasks


def test_listing_is_grouped_by_family_and_ordered_by_size() -> None:
    listed = model_names()
    families = [m.family for m in listed]
    assert len([f for i, f in enumerate(families) if not i or families[i - 1] != f]) == len(
        set(families)
    )
    for family in set(families):
        sizes = [m.parameters or 0 for m in listed if m.family == family]
        assert sizes == sorted(sizes)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("GPT2", "gpt2"),
        ("gpt-2", "gpt2"),
        ("gpt2_xl", "gpt2-xl"),
        ("llama3-8b", "llama-3.1-8b"),
        ("Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("meta-llama/Llama-3.1-8B", "llama-3.1-8b"),
        ("llama3.1:8b", "llama-3.1-8b"),
        ("ResNet-50", "resnet50"),
        ("vit_b_16", "vit-b-16"),
        ("DiT-XL/2", "dit-xl-2"),
        ("Qwen/Qwen3-30B-A3B", "qwen3-30b-a3b"),
        ("bert-base-uncased", "bert-base"),
        ("stable-diffusion-1.5", "sd15-unet"),
    ],
)
def test_names_as_people_write_them(written: str, name: str) -> None:
    assert find(written).name == name


def test_unknown_name_lists_near_ones() -> None:
    with pytest.raises(UnknownNameError) as caught:
        find("lama-3.1-8b")
    assert "llama-3.1-8b" in caught.value.near
    assert "config.json" in caught.value.next_step


def test_near_names_are_also_those_of_models_known_by_their_size_alone() -> None:
    with pytest.raises(UnknownNameError) as caught:
        find("gpt-oss-21b")
    assert caught.value.near[0] == "gpt-oss-20b"


def all_models() -> list[Model]:
    return [find(line.name) for line in model_names()]


def test_every_model_trains_with_an_optimizer_of_its_own() -> None:
    for model in all_models():
        for task, defaults in model.tasks.items():
            assert bool(defaults.optimizer) == (task == "train"), (model.name, task)


def test_decoding_needs_a_context() -> None:
    for model in all_models():
        for task, defaults in model.tasks.items():
            assert (defaults.context is not None) == (task == "decode"), (model.name, task)
