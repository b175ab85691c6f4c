"""What tutorials and benchmarks write: each is captured, with the work of a real run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import gpuscope as gs
from gpuscope.errors import WorkloadError
from gpuscope.program.capture import capture
from gpuscope.program.workload import WorkloadOptions

Step = Callable[[], object]


def test_gradients_of_clamp_stay_on_the_host() -> None:
    def build() -> Step:
        weight = torch.randn(4, 4, requires_grad=True)
        head = nn.Linear(4, 2).cuda()
        optimizer = torch.optim.SGD([weight], lr=0.1)

        def step() -> None:
            optimizer.zero_grad()
            head((torch.ones(3, 4) @ weight).clamp(min=0, max=6).cuda()).sum().backward()
            optimizer.step()
            assert weight.grad is not None
            assert weight.grad.device.type == "cpu"

        return step

    assert not capture(build).unsupported


def test_the_inverse_of_a_spectrogram() -> None:
    def build() -> Step:
        window = torch.hann_window(64, device="cuda")
        x = torch.randn(2, 1000, device="cuda")

        def step() -> torch.Tensor:
            spectrum = torch.stft(x, 64, 16, window=window, return_complex=True)
            return torch.istft(spectrum, 64, 16, window=window, length=1000)

        return step

    names = [op.name for op in capture(build).ops]
    assert "aten::_fft_r2c" in names
    assert "aten::_fft_c2r" in names


def test_distances_are_a_product() -> None:
    def build() -> Step:
        x, y = torch.randn(100, 8, device="cuda"), torch.randn(30, 8, device="cuda")
        return lambda: torch.cdist(x, y).argmin(1)

    program = capture(build)
    products = [op for op in program.ops if op.name == "aten::mm"]
    assert [spec.shape for spec in products[0].inputs] == [(100, 10), (10, 30)]
    assert program.ops[-1].outputs[0].shape == (100,)


def test_distances_are_those_of_pytorch() -> None:
    from gpuscope.program.capture.comparisons import distance

    x, y = torch.randn(100, 8), torch.randn(30, 8)
    torch.testing.assert_close(distance(x, y), torch.ops.aten._euclidean_dist(x, y))


def test_a_compiled_model_knows_what_was_compiled() -> None:
    def build() -> Step:
        model = nn.Linear(4, 4).cuda()
        assert not hasattr(model, "_orig_mod")
        compiled: Any = torch.compile(model)
        assert compiled._orig_mod.weight is model.weight
        return lambda: compiled(torch.randn(2, 4, device="cuda"))

    capture(build)
    assert not hasattr(nn.Linear(4, 4), "_orig_mod")


def test_what_only_changes_a_shape_launches_nothing() -> None:
    x = torch.randn(4, 5)
    program = capture(lambda: lambda: x.cuda().transpose_(0, 1).unsqueeze_(0))
    assert [op.view for op in program.ops if op.name.endswith("_") and "copy" not in op.name] == [
        True,
        True,
    ]


def test_imports_inside_of_the_step_are_not_its_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "".join(f"def f{n}(): pass\nf{n}()\n" for n in range(500))
    (tmp_path / "imported_late.py").write_text(lines)
    monkeypatch.syspath_prepend(str(tmp_path))

    def build() -> Step:
        def step() -> None:
            x = torch.ones(4, device="cuda")
            sys.modules.pop("imported_late", None)
            import imported_late  # type: ignore[import-not-found]

            assert imported_late
            x.neg()

        return step

    assert sum(op.python_calls for op in capture(build).ops) < 50


STREAMS = """
import torch
side = torch.cuda.Stream()
a = torch.randn(4096, 4096, device="cuda")
begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
torch.cuda.synchronize()
begin.record()
with torch.cuda.stream(side):
    a @ a
torch.cuda.current_stream().wait_stream(side)
end.record()
torch.cuda.synchronize()
print("ms", begin.elapsed_time(end), torch.cuda.get_device_properties(0).total_memory)
print(torch.cuda.memory_stats()["allocated_bytes.all.peak"] // 2**20, "MiB")
"""

TIMED = """
import torch
import triton
x = torch.randn(2048, 2048, device="cuda")
print("ms", triton.testing.do_bench(lambda: x @ x))
"""


def printed(tmp_path: Path, text: str) -> str:
    (tmp_path / "script.py").write_text(text)
    run = gs.predict(str(tmp_path / "script.py"), "h200")
    assert run.program is not None
    assert run.program.printed is not None
    return run.program.printed.text


def test_events_wait_for_other_streams(tmp_path: Path) -> None:
    said = printed(tmp_path, STREAMS).split()
    assert 2 < float(said[1]) < 4  # 137 GFLOP
    assert int(said[2]) > 140e9
    assert int(said[3]) >= 64


def test_tensors_are_printed_with_what_is_known(tmp_path: Path) -> None:
    text = (
        "import torch\nx = torch.ones(2, 3).cuda()\nprint(torch.arange(3) + 1, x @ x.T, sep=';')\n"
    )
    host, there = printed(tmp_path, text).strip().split(";")
    assert host == "tensor([1, 2, 3])"
    assert there == "tensor(..., device='cuda:0', size=(2, 2))"


def test_triton_times_a_function(tmp_path: Path) -> None:
    assert 0.2 < float(printed(tmp_path, TIMED).split()[1]) < 0.6  # 17 GFLOP


def test_a_script_of_torchrun_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import os, torch\nrank = int(os.environ['LOCAL_RANK'])\n")
    with pytest.raises(WorkloadError) as error:
        gs.predict(str(tmp_path / "train.py"), "h200", options=WorkloadOptions())
    assert "--on 2xh200" in str(error.value.next_step)
