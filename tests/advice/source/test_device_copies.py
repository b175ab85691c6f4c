"""Copies to the device, found in the source of the step and made quicker there."""

from __future__ import annotations

from pathlib import Path

import pytest

import gpuscope as gs
from gpuscope.advice.forecast.forecaster import Forecaster
from gpuscope.advice.source.device_copies import device_copies, non_blocking, pinned
from gpuscope.advice.source.edits import applied
from gpuscope.advice.source.patches import patch_of

BUILD = """\
import torch


def build(n=8):
    table = torch.randn(n, 4)  # 表
    labels = torch.randint(
        0, 4, (n,)
    ).long()
    there = torch.zeros(4, device="cuda")
    both, other = torch.ones(4), torch.ones(4)

    def step():
        {line}
        return x

    return step
"""


def source(line: str) -> str:
    return BUILD.replace("{line}", line)


@pytest.mark.parametrize(
    ("line", "new"),
    [
        ("x = table.cuda()", "x = table.cuda(non_blocking=True)"),
        (
            "x, y = table.cuda(), labels.cuda()",
            "x, y = table.cuda(non_blocking=True), labels.cuda(non_blocking=True)",
        ),
        (
            '表 = "表"; x = table.to("cuda:0")',
            '表 = "表"; x = table.to("cuda:0", non_blocking=True)',
        ),
        (
            "x = table.cuda(0).to(torch.float16)",
            "x = table.cuda(0, non_blocking=True).to(torch.float16)",
        ),
    ],
)
def test_copies_do_not_block_any_more(line: str, new: str) -> None:
    text = source(line)
    calls = device_copies(text, "build")
    assert calls is not None
    assert applied(text, non_blocking("a.py", text, calls)) == source(new)


@pytest.mark.parametrize(
    "line",
    [
        "x = table",
        'x = table.to("cpu")',
        "x = table.to(there.device)",
        "x = there.copy_(table)",
        "x = table.cuda(memory_format=torch.channels_last)",
        "x = table.to(torch.float16)",
        'x = table.cuda(); y = x.to(device="cpu")',
    ],
)
def test_what_may_be_another_copy_is_left_alone(line: str) -> None:
    assert device_copies(source(line), "build") is None


def test_what_does_not_block_already_stays() -> None:
    text = source("x = table.cuda(non_blocking=True)")
    calls = device_copies(text, "build")
    assert calls is not None
    assert non_blocking("a.py", text, calls) == ()


def test_host_tensors_are_pinned_where_they_are_made() -> None:
    text = source("x, y = table.cuda(), labels.cuda()")
    edits = pinned("a.py", text, "build", device_copies(text, "build") or (), False)
    assert edits is not None
    new = applied(text, edits)
    assert "    table = torch.randn(n, 4).pin_memory()  # 表\n" in new
    assert "    ).long().pin_memory()\n" in new
    assert new.count("pin_memory") == 2


@pytest.mark.parametrize(
    "line", ["x = there.cuda()", "x = both.cuda()", "x = unknown.cuda()", "x = (table + 1).cuda()"]
)
def test_what_is_not_certainly_a_host_tensor_is_not_pinned(line: str) -> None:
    text = source(line)
    calls = device_copies(text, "build")
    assert calls is not None
    assert pinned("a.py", text, "build", calls, False) is None


def test_what_comes_from_a_loader_is_left_to_it() -> None:
    text = source("x = unknown.cuda()")
    assert pinned("a.py", text, "build", device_copies(text, "build") or (), True) == ()


def test_the_patched_source_is_priced_like_the_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = BUILD.replace("n=8", "n=4000000").replace("{line}", "x = table.cuda() * 2")
    monkeypatch.chdir(tmp_path)
    Path("copying.py").write_text(text, encoding="utf-8")
    names = ("pin-memory", "async-copies")
    forecaster = Forecaster("copying.py:build", "h200")
    seen = forecaster.case.seen
    assert seen is not None
    patch = patch_of(names, seen)
    assert set(patch.in_source) == set(names)
    Path("copied.py").write_text(next(iter(patch.files.values())), encoding="utf-8")
    patched = gs.predict("copied.py:build", on="h200").step_time_s
    live = forecaster.forecast(names).step_time_s
    assert patched == pytest.approx(live, rel=1e-6)
    assert patched < forecaster.case.run.step_time_s
