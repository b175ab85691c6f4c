"""Workloads by name, from the user's file and from a configuration file."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuscope.errors import (
    InputFileError,
    InvalidValueError,
    UnknownNameError,
    UnsupportedError,
    WorkloadError,
)
from gpuscope.program.workload import WorkloadOptions, resolve

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def untouched_process() -> Iterator[None]:
    path, modules, threads = list(sys.path), set(sys.modules), torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name in ("job", "helper", "random_job"):
            del sys.modules[name]


def write(folder: Path, text: str, name: str = "job.py") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


GOOD = """
import helper

def build(batch=4):
    values = [helper.START] * batch
    def step():
        return sum(values)
    return step

def other():
    return lambda: "other"
"""


def test_built_in_model() -> None:
    options = WorkloadOptions(batch=3, device="cpu", image=32, layers=1, dtype="fp32")
    got = resolve("ViT_B_16", options)
    assert (got.name, got.task, got.batch, got.samples, got.seq) == (
        "vit-b-16",
        "train",
        3,
        3,
        None,
    )
    assert got.tokens is None
    assert got.title == "vit-b-16 train, batch 3 x 32 px, float32, 1 layer, adamw"
    assert got.build()().isfinite()  # type: ignore[attr-defined]


def test_tokens_of_a_step() -> None:
    pytest.importorskip("transformers")
    assert resolve("gpt2", WorkloadOptions(batch=2, seq=100)).tokens == 200
    decode = resolve("gpt2", WorkloadOptions(task="decode", batch=5, context=100))
    assert (decode.tokens, decode.samples, decode.seq) == (5, 5, 100)
    assert resolve("t5-small", WorkloadOptions(batch=2, seq=100)).tokens == 2 * (100 + 25)


def test_unknown_model() -> None:
    with pytest.raises(UnknownNameError) as caught:
        resolve("gtp2")
    assert "gpt2" in caught.value.near


def test_function_of_a_file(tmp_path: Path) -> None:
    write(tmp_path, "START = 2\n", "helper.py")
    file = write(tmp_path, GOOD)
    assert resolve(f"{file}:build").build()() == 8
    assert resolve(f"{file}").build()() == 8  # `build` is the default
    assert resolve(f"{file}:other").build()() == "other"


def test_options_are_arguments_of_the_users_function(tmp_path: Path) -> None:
    write(tmp_path, "START = 2\n", "helper.py")
    file = write(tmp_path, GOOD)
    assert resolve(f"{file}:build", WorkloadOptions(batch=10)).build()() == 20
    with pytest.raises(InvalidValueError, match="seq"):
        resolve(f"{file}:build", WorkloadOptions(seq=10))


def test_a_file_named_like_a_module_in_use_does_not_replace_it(tmp_path: Path) -> None:
    import random

    file = write(tmp_path, "def build():\n    return lambda: 1\n", "random.py")
    assert resolve(f"{file}:build").build()() == 1
    assert sys.modules["random"] is random


@pytest.mark.parametrize(
    ("text", "function", "error", "says"),
    [
        ("def build(:\n", "build", InputFileError, ["line 1", "not valid Python"]),
        ("def make():\n    pass\n", "build", WorkloadError, ["It has: make", "job.py:make"]),
        ("x = 1\n", "build", WorkloadError, ["no function"]),
        (
            "import notthere\n\ndef build():\n    pass\n",
            "build",
            WorkloadError,
            ["line 1", "notthere", "Install"],
        ),
        (
            "def build():\n    pass\n\n1 / 0\n",
            "build",
            WorkloadError,
            ["ZeroDivisionError", "line 4"],
        ),
        (
            "import sys\n\ndef build():\n    pass\n\nsys.exit(3)\n",
            "build",
            WorkloadError,
            ["SystemExit", "__main__"],
        ),
        ("def build(path):\n    pass\n", "build", WorkloadError, ["argument 'path'", "default"]),
    ],
)
def test_broken_files(
    tmp_path: Path, text: str, function: str, error: type[Exception], says: list[str]
) -> None:
    file = write(tmp_path, text)
    with pytest.raises(error) as caught:
        resolve(f"{file}:{function}")
    for part in says:
        assert part in str(caught.value)


def test_missing_file_lists_its_neighbours(tmp_path: Path) -> None:
    write(tmp_path, "x = 1\n", "train.py")
    with pytest.raises(InputFileError, match=r"train\.py"):
        resolve(f"{tmp_path / 'job.py'}:build")


def test_file_that_imports_its_function(tmp_path: Path) -> None:
    write(tmp_path, "def build():\n    return lambda: 5\n", "helper.py")
    file = write(tmp_path, "from helper import build\n")
    assert resolve(f"{file}:build").build()() == 5


# --- configuration files -----------------------------------------------------------------------

LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 64,
    "max_position_embeddings": 128,
    "rope_theta": 500000.0,
    "torch_dtype": "bfloat16",
}
BERT = {
    "model_type": "bert",
    "architectures": ["BertForMaskedLM"],
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 64,
    "max_position_embeddings": 128,
}
T5 = {
    "model_type": "t5",
    "architectures": ["T5ForConditionalGeneration"],
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 2,
    "num_heads": 4,
    "vocab_size": 64,
    "decoder_start_token_id": 0,
}
VIT = {
    "model_type": "vit",
    "architectures": ["ViTForImageClassification"],
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 32,
    "patch_size": 16,
}
GEMMA3 = {
    "model_type": "gemma3",
    "architectures": ["Gemma3ForConditionalGeneration"],
    "text_config": {
        "model_type": "gemma3_text",
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "vocab_size": 64,
        "sliding_window": 16,
        "max_position_embeddings": 128,
    },
    "vision_config": {"hidden_size": 16},
}


def config(folder: Path, values: dict[str, Any]) -> Path:
    return write(folder, json.dumps(values), "config.json")


@pytest.mark.parametrize(
    ("values", "task", "size"),
    [
        (LLAMA, "train", {"seq": 8}),
        (LLAMA, "prefill", {"seq": 8}),
        (LLAMA, "decode", {"context": 8}),
        (BERT, "train", {"seq": 8}),
        (BERT, "inference", {"seq": 8}),
        (T5, "train", {"seq": 8}),
        (VIT, "train", {}),
        (VIT, "inference", {}),
        (GEMMA3, "decode", {"context": 8}),
    ],
)
def test_configuration_becomes_a_step(
    tmp_path: Path, values: dict[str, Any], task: str, size: dict[str, int]
) -> None:
    pytest.importorskip("transformers")
    file = config(tmp_path, values)
    options = WorkloadOptions(
        task=task,
        batch=2,
        dtype="float32",
        device="cpu",
        attention="eager" if values is GEMMA3 else None,
        **size,
    )
    got = resolve(str(file), options)
    assert got.task == task
    result = got.build()()
    assert result.isfinite().all()  # type: ignore[attr-defined]


def test_folder_with_a_configuration(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    config(tmp_path, LLAMA)
    got = resolve(str(tmp_path))
    assert got.name == tmp_path.name
    assert got.seq == 128  # no longer than the model's positions


def test_depth_of_a_configuration_can_be_changed(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from gpuscope.program.models.building.transformers_models import with_depth

    values: dict[str, object] = {**LLAMA, "layer_types": ["full_attention"] * 4}
    changed = with_depth(values, ("num_hidden_layers",), 2)
    assert (changed["num_hidden_layers"], changed["layer_types"]) == (2, ["full_attention"] * 2)
    deeper = with_depth(values, ("num_hidden_layers",), 6)
    assert len(deeper["layer_types"]) == 6  # type: ignore[arg-type]
    assert values["num_hidden_layers"] == 4


def test_notes_say_what_is_left_out(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    file = config(tmp_path, {**LLAMA, "quantization_config": {"quant_method": "gptq", "bits": 4}})
    assert any("quantisation" in note for note in resolve(str(file)).notes)
    assert any("text part" in note for note in resolve(str(config(tmp_path, GEMMA3))).notes)


def test_unknown_model_type_lists_near_ones(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    with pytest.raises(UnknownNameError) as caught:
        resolve(str(config(tmp_path, {**LLAMA, "model_type": "lama"})))
    assert "llama" in caught.value.near


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{not json", "JSON"),
        ("[1, 2]", "model_type"),
        ('{"hidden_size": 3}', "model_type"),
        ('{"_class_name": "UNet2DConditionModel"}', "diffusers"),
    ],
)
def test_broken_configurations(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(InputFileError, match=says):
        resolve(str(write(tmp_path, text, "config.json")))


def test_missing_configuration(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="no file"):
        resolve(str(tmp_path))


def test_a_kind_of_model_without_a_workload(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    with pytest.raises(UnsupportedError, match="encodec"):
        resolve(str(config(tmp_path, {"model_type": "encodec"})))
