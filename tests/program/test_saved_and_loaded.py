"""What is saved in a capture is loaded again, without values and with its shapes and places."""

from __future__ import annotations

import argparse
import io
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import gpuscope as gs  # noqa: E402
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
