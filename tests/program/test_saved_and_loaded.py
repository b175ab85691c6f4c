"""What is saved in a capture is loaded again, without values and with its shapes and places."""

from __future__ import annotations

import argparse
import io
import shutil
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import gpuscope as gs  # noqa: E402
from gpuscope.errors import CaptureError, WorkloadError  # noqa: E402
from gpuscope.program.capture import capture  # noqa: E402


def test_a_training_goes_on_from_what_it_saved(tmp_path: Path) -> None:
    def build():
        model = torch.nn.Linear(8, 4).cuda()
        optimizer = torch.optim.AdamW(model.parameters())
        x = torch.randn(2, 8, device="cuda")

        def train():
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()

        train()
        saved = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "arguments": argparse.Namespace(epochs=3),
            "order": torch.tensor([2, 0, 1]),
        }
        torch.save(saved, tmp_path / "last.pt")
        found = torch.load(tmp_path / "last.pt", weights_only=False)
        model.load_state_dict(found["model"])
        optimizer.load_state_dict(found["optimizer"])
        assert found["arguments"].epochs == 3
        assert found["order"].tolist() == [2, 0, 1]
        assert found["model"]["weight"].device.type == "cuda"
        assert float(next(iter(optimizer.state.values()))["step"]) == 1.0
        return train

    assert [op for op in capture(build).ops if op.phase == "optimizer"]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("place", "kind"),
    [(None, "cuda"), ("cpu", "cpu"), ({"cuda:0": "cpu"}, "cpu"), (lambda s, _: s, "cpu")],
)
def test_a_buffer_holds_it_where_it_is_asked_for(place, kind) -> None:
    def build():
        weight = torch.randn(6, 4, device="cuda")
        buffer = io.BytesIO()
        torch.save([weight, weight.t(), torch.nn.Parameter(weight[2:])], buffer)
        buffer.seek(0)
        whole, turned, part = torch.load(buffer, map_location=place)
        assert whole.device.type == kind
        assert (turned.shape, turned.stride()) == ((4, 6), (1, 4))
        assert isinstance(part, torch.nn.Parameter)
        assert part.storage_offset() == 8
        assert part.untyped_storage()._cdata == whole.untyped_storage()._cdata
        return lambda: weight * 2

    capture(build)


def test_a_script_finds_its_best_weights_under_a_new_name(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("""
import os, torch
model = torch.nn.Linear(8, 4).cuda()
torch.save({"model": model.state_dict(), "epoch": 3}, "best.tmp")
os.replace("best.tmp", "best.pt")
found = torch.load("best.pt", map_location="cuda")
model.load_state_dict(found["model"])
print(found["epoch"], model(torch.ones(2, 8).cuda()).shape)
""")
    run = gs.predict(str(tmp_path / "script.py"), "h200")
    assert run.program.printed.text.split() == ["3", "torch.Size([2,", "4])"]
    assert [path.name for path in tmp_path.iterdir()] == ["script.py"]


def test_scripted_and_traced_modules_run() -> None:
    def build():
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).cuda()
        x = torch.randn(4, 8, device="cuda")
        scripted, traced = torch.jit.script(model), torch.jit.trace(model, x)
        return lambda: traced(scripted(x))

    names = [op.name for op in capture(build).ops]
    assert names.count("aten::addmm") == names.count("aten::relu") == 2


WEIGHTS = """
import os, shutil, torch
from safetensors import safe_open
from safetensors.torch import load, load_file, load_model, save, save_file, save_model

def state(model):
    found = {**model.state_dict(), "order": torch.tensor([2, 0, 1])}
    return {name: tensor.contiguous() for name, tensor in found.items()}

def build():
    model = torch.nn.Linear(8, 4).cuda()
    save_file(state(model), "first.tmp", metadata={"format": "pt"})
    os.replace("first.tmp", "first.safetensors")
    shutil.copy("first.safetensors", "best.safetensors")
    found = load_file("best.safetensors", device="cuda")
    assert {n: tuple(t.shape) for n, t in found.items()} == {
        "weight": (4, 8), "bias": (4,), "order": (3,)
    }
    with safe_open("best.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"}
        assert file.get_tensor("order").tolist() == [2, 0, 1]
        assert file.get_slice("weight")[1:3].shape == (2, 8)
    assert load(save(state(model)))["order"].tolist() == [2, 0, 1]
    save_model(model, "model.safetensors")
    load_model(model, "model.safetensors", device="cuda")
    torch.save(model.state_dict(), "last.pt")
    shutil.copyfile("last.pt", "best.pt")
    model.load_state_dict(torch.load("best.pt", weights_only=True))
    return lambda: model(torch.randn(2, 8, device="cuda"))

def tied():
    layer = torch.nn.Linear(4, 4).cuda()
    try:
        save_file({"a": layer.weight, "b": layer.weight.t().t(), "c": layer.bias}, "x")
    except RuntimeError as error:
        assert "share memory" in str(error)
    else:
        raise AssertionError
    return lambda: layer(torch.randn(2, 4, device="cuda"))

def unsaveable():
    torch.save(lambda: 1, "x.pt")
    return torch.load("x.pt")

def pretrained():
    from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel
    model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=16, n_head=2, vocab_size=50))
    model.save_pretrained("gpt")
    again = AutoModelForCausalLM.from_pretrained("gpt", dtype=torch.bfloat16).cuda()
    assert again.lm_head.weight.data_ptr() == again.transformer.wte.weight.data_ptr()
    return lambda: again(torch.randint(0, 50, (2, 4), device="cuda"))

def mapped():
    from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel
    model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=16, n_head=2, vocab_size=50))
    model.save_pretrained("gpt")
    for place in ("cuda", "auto"):
        again = AutoModelForCausalLM.from_pretrained("gpt", device_map=place)
        assert again.device.type == "cuda"
    return lambda: again(torch.randint(0, 50, (2, 4), device="cuda"))
"""


def test_weights_are_saved_and_loaded_on_the_copy(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    (tmp_path / "weights.py").write_text(WEIGHTS)
    for name in ("build", "tied"):
        assert gs.capture(f"{tmp_path / 'weights.py'}:{name}").ops
    with pytest.raises(CaptureError, match="cannot be loaded again"):
        gs.capture(f"{tmp_path / 'weights.py'}:unsaveable")
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["weights.py"]


def test_a_model_of_transformers_is_saved_and_loaded(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    (tmp_path / "weights.py").write_text(WEIGHTS)
    program = gs.capture(f"{tmp_path / 'weights.py'}:pretrained")
    assert "bfloat16" in {spec.dtype for op in program.ops for spec in op.inputs}


def test_files_of_the_user_are_not_filled_with_nothing(tmp_path: Path) -> None:
    save_file = pytest.importorskip("safetensors.torch").save_file
    load_file = pytest.importorskip("safetensors.torch").load_file

    def build():
        weight = torch.randn(6, 4, device="cuda")
        save_file({"weight": weight}, tmp_path / "a.safetensors")
        found = load_file(tmp_path / "a.safetensors", device="cuda")["weight"]
        return lambda: found @ weight.t()

    def copying():
        torch.save(torch.randn(3), tmp_path / "last.pt")
        shutil.copy(tmp_path / "last.pt", tmp_path / "best.pt")

    assert [op.name for op in capture(build).ops if "mm" in op.name]
    with pytest.raises(WorkloadError, match=r"Name it as file\.py:build"):
        capture(copying)
    assert not list(tmp_path.iterdir())


def test_a_model_of_transformers_is_loaded_onto_the_device(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    (tmp_path / "weights.py").write_text(WEIGHTS)
    assert gs.capture(f"{tmp_path / 'weights.py'}:mapped").ops
