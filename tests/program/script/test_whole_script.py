"""Scripts without optimizer or model: all of it is the step, on the predicted clock."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

import gpuscope as gs
from gpuscope.errors import InvalidValueError, WorkloadError
from gpuscope.hardware import calibration_for, device
from gpuscope.program.script.whole import longest_loop, part
from gpuscope.program.types import Op, Program, Storage, TensorSpec
from gpuscope.program.workload import WorkloadOptions, resolve
from gpuscope.views.report.data import report_data

PRODUCT = """
import torch
before = torch.ones(3) + 1
x = torch.randn(512, 256, device="cuda")
y = x @ x.T
print(y.shape)
after = torch.ones(3) + 1
"""

TIMED = """
import time
import torch
import torch.utils.benchmark as benchmark

def timed(n):
    a = torch.randn(n, n, device="cuda")
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(10):
        a @ a
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / 10

x = torch.randn(4096, 4096, device="cuda")
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record(); x @ x; end.record()
torch.cuda.synchronize()
until = time.time() + 0.5
time.sleep(0.25)
rounds = 0
while time.time() < until:
    time.sleep(0.05); rounds += 1
timer = benchmark.Timer("x @ x", globals={"x": x}).timeit(20)
import json
print(json.dumps({
    "loop_s": timed(4096), "event_s": start.elapsed_time(end) / 1e3, "timer_s": timer.median,
    "rounds": rounds, "bytes": torch.cuda.memory_allocated(), "name": torch.cuda.get_device_name(),
    "most": torch.cuda.max_memory_allocated(), "free": torch.cuda.mem_get_info()[0],
}))
"""


def captured(folder: Path, text: str, step: str | None = None, **more) -> Program:
    path = folder / "script.py"
    path.write_text(text)
    return gs.capture(str(path), options=WorkloadOptions(step=step), **more)


def names(program: Program) -> list[str]:
    return [op.name for op in program.ops]


def test_all_of_a_script_is_the_step_from_first_to_last_device_work(tmp_path: Path) -> None:
    program = captured(tmp_path, PRODUCT)
    assert names(program) == ["aten::randn", "aten::permute", "aten::mm"]
    assert [op.index for op in program.ops] == [0, 1, 2]
    assert sorted(s.nbytes for s in program.storages) == [512 * 256 * 4, 512 * 512 * 4]
    assert all(s.born >= 0 for s in program.storages)
    said = program.assumptions[0]
    assert said.startswith("The whole script is taken as the step")
    assert "script.py:4" in said
    assert "script.py:5" in said
    assert "整个脚本" in said.to("zh")


def test_a_clock_shows_predicted_times(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(TIMED)
    began = time.monotonic()
    run = gs.predict(str(path), "h200")
    assert time.monotonic() - began < 120
    assert run.program.printed.device == "NVIDIA H200 SXM 141GB"
    told = json.loads(run.program.printed.text)
    product_s = 2 * 4096**3 / 67e12  # float32 at its peak; the prediction is a little above
    for name in ("loop_s", "event_s", "timer_s"):
        assert product_s < told[name] < 1.4 * product_s, name
    assert told["rounds"] == 5
    assert told["name"] == "NVIDIA H200 SXM 141GB"
    assert told["bytes"] == 4096 * 4096 * 4
    assert told["most"] == 3 * 4096 * 4096 * 4
    assert 130e9 < told["free"] < 151e9
    document = run.to_dict()
    assert document["program"]["printed"]["text"] == run.program.printed.text


def test_a_pass_of_a_loop_can_be_the_step(tmp_path: Path) -> None:
    loop = """
import torch
a, b = torch.randn(64, 64, device="cuda"), torch.randn(64, 64, device="cuda")
for _ in range(30):
    a = (a @ b).relu()
print(a.sum().item())
"""
    whole = captured(tmp_path, loop)
    assert names(whole).count("aten::mm") == 30
    assert any(
        "repeats the same device work 30 times (script.py:5)" in a for a in whole.assumptions
    )
    once = captured(tmp_path, loop, step="3")
    assert names(once) == ["aten::mm", "aten::relu"]
    assert once.assumptions[0].startswith("Pass 3 of 30")
    with pytest.raises(WorkloadError, match="30 passes, no 31"):
        captured(tmp_path, loop, step="31")


def test_steps_of_a_training_can_be_chosen(tmp_path: Path) -> None:
    text = """
import torch
model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for rows in range(1, 9):
    model(torch.randn(rows, 8, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
model.eval()
with torch.no_grad():
    for _ in range(6):
        model(torch.randn(100, 8, device="cuda"))
"""

    def rows(program: Program) -> list[int]:
        return [op.outputs[0].shape[0] for op in program.ops if op.name == "aten::addmm"]

    third, fifth = captured(tmp_path, text), captured(tmp_path, text, step="5")
    assert rows(third) == [3]
    assert rows(fifth) == [5]
    assert "no. 5 that lies between two steps of the optimizer" in fifth.assumptions[0]
    assert rows(captured(tmp_path, text, step="forward")) == [100]
    assert rows(captured(tmp_path, text, step="whole")) == [*range(1, 9), *[100] * 6]
    with pytest.raises(WorkloadError, match="8 of 20 steps"):
        captured(tmp_path, text, step="20")


def test_two_steps_alone_are_taken_whole(tmp_path: Path) -> None:
    text = """
import torch
model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    model(torch.randn(4, 8, device="cuda")).sum().backward()
    optimizer.step()
"""
    program = captured(tmp_path, text)
    assert names(program).count("aten::addmm") == 2
    assert program.task == "train"


def test_a_step_that_cannot_be_is_refused(tmp_path: Path) -> None:
    for wrong in ("0", "all", "-1"):
        with pytest.raises(InvalidValueError, match="A step cannot be"):
            captured(tmp_path, PRODUCT, step=wrong)
    with pytest.raises(InvalidValueError, match="takes no --step"):
        resolve("gpt2", WorkloadOptions(step="whole"))


def test_a_program_on_the_cpu_is_told_first(tmp_path: Path) -> None:
    from rich.console import Console

    from gpuscope.views.terminal.run import render_headline

    path = tmp_path / "script.py"
    path.write_text("import torch\na = torch.randn(1500, 1500)\nb = a @ a\n")
    run = gs.predict(str(path), "h200")
    low, high = run.step_time_interval_s
    # 6.75 GFLOP and 2.25 million random numbers, on hosts of 4 to 100 cores
    assert 2e-3 < low < 15e-3 < run.step_time_s < 60e-3 < high < 300e-3
    assert high < 10 * low
    for lang, words in (("en", "never uses the GPU"), ("zh", "从不使用 GPU")):
        console = Console(width=200)
        with console.capture() as shown:
            console.print(render_headline(run, lang))
        assert words in shown.get()


def _ops(kinds: str) -> tuple[Op, ...]:
    def spec(kind: str) -> TensorSpec:
        return TensorSpec((ord(kind),), (1,), "float32")

    return tuple(
        Op(index=n, name=f"aten::{kind}", outputs=(spec(kind),), line=f"x.py:{ord(kind)}")
        for n, kind in enumerate(kinds)
    )


@pytest.mark.parametrize(
    ("kinds", "first", "period", "passes"),
    [("abcabcabcabcx", 0, 3, 4), ("xyaaaaaz", 2, 1, 5), ("aabaabaabaab", 0, 3, 4)],
)
def test_the_longest_loop_is_found(kinds: str, first: int, period: int, passes: int) -> None:
    loop = longest_loop(_ops(kinds))
    assert (loop.first, loop.period, loop.passes) == (first, period, passes)


def test_what_does_not_repeat_three_times_is_no_loop() -> None:
    assert longest_loop(_ops("abcabcxyz")) is None
    assert longest_loop(()) is None


def test_a_part_keeps_what_lives_in_it() -> None:
    storages = (
        Storage(0, 8, "input", -1, None),
        Storage(1, 8, "temporary", 0, 2),
        Storage(2, 8, "temporary", 1, 4),
        Storage(3, 8, "temporary", 3, 5),
    )
    made = part(Program("p", _ops("abcde"), storages), 2, 4)
    assert [op.name for op in made.ops] == ["aten::c", "aten::d"]
    assert [(s.id, s.born, s.died) for s in made.storages] == [
        (0, -1, None),
        (2, -1, None),
        (3, 1, None),
    ]


def test_the_clock_runs_by_the_constants_given(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text("""
import time, torch
x = torch.randn(4096, 4096, device="cuda")
torch.cuda.synchronize(); begin = time.perf_counter()
x @ x
torch.cuda.synchronize(); print(time.perf_counter() - begin)
""")
    own = calibration_for(device("h200"))
    slow = [
        (n, replace(v, value=v.value / 2)) if n == "matmul.ffma_fp32.efficiency" else (n, v)
        for n, v in own.entries
    ]
    slower = replace(own, entries=tuple(slow))
    assert slower != own
    usual, half = (
        float(gs.predict(str(path), "h200", calibration=c).program.printed.text)
        for c in (None, slower)
    )
    assert 1.8 < half / usual < 2.1


def test_charts_are_kept_where_one_asks_and_told_of(tmp_path: Path, monkeypatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    text = """
import torch
import matplotlib.pyplot as plt
x = torch.randn(64, 64, device="cuda") @ torch.randn(64, 64, device="cuda")
plt.plot([1, 2, 3])
plt.savefig("speed.svg"); plt.savefig("again"); plt.savefig("speed.svg")
plt.show()
"""
    told = captured(tmp_path, text).assumptions
    assert any("(speed.svg, again.png, figure-1.png), which are gone" in note for note in told)
    program = gs.capture("script.py", options=WorkloadOptions(keep="charts"))
    assert any("speed.svg, again.png, figure-1.png." in note for note in program.assumptions)
    kept = {path.name: path.read_bytes() for path in (tmp_path / "charts").iterdir()}
    assert sorted(kept) == ["again.png", "figure-1.png", "speed.svg"]
    assert kept["again.png"].startswith(b"\x89PNG")
    assert b"<svg" in kept["speed.svg"]
    assert not (tmp_path / "speed.svg").exists()
    (tmp_path / "taken").write_text("")
    with pytest.raises(InvalidValueError, match="cannot be kept"):
        gs.capture("script.py", options=WorkloadOptions(keep="taken"))
    with pytest.raises(InvalidValueError, match="takes no --keep"):
        gs.capture("gpt2", options=WorkloadOptions(keep="charts"))


def test_the_page_shows_what_a_script_printed(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(PRODUCT + "print('<b>done</b>')\n")
    block = report_data([gs.predict(str(path), "h200")], "en", what_if=False)["runs"][0][
        "printed_block"
    ]
    assert [line["text"] for line in block["lines"]][:2] == [
        "torch.Size([512, 512])",
        "<b>done</b>",
    ]


def test_saving_and_fetching_take_their_time(tmp_path: Path) -> None:
    text = """
import os, time, torch
model = torch.nn.Linear(4096, 8192, bias=False).cuda()
tied = {"weight": model.weight, "again": model.weight.view(-1), "epoch": 3}
x = torch.randn(4096, 4096, device="cuda")

def timed(run):
    torch.cuda.synchronize(); begin = time.perf_counter()
    run()
    return time.perf_counter() - begin

kept = torch.empty(4096, 4096)
print(*(timed(run) for run in (
    lambda: torch.save(tied, "tied.pt"), lambda: torch.save(model, "model.pt"),
    lambda: x.cpu(), lambda: kept.copy_(x),
)))
os.replace("tied.pt", "last.pt")
"""
    (tmp_path / "script.py").write_text(text)
    run = gs.predict(str(tmp_path / "script.py"), "h200")
    copies = [op for op in run.program.ops if _fetches(op)]
    assert [op.inputs[-1].nbytes >> 20 for op in copies] == [128, 128, 64, 64]
    tied, whole, fresh, kept = map(float, run.program.printed.text.split())
    assert tied == pytest.approx(whole, rel=0.01)
    # Sixteen thousand new pages of 4 KiB: a few microseconds each.
    assert 2e-6 < (fresh - kept) / (64 * 2**20 / 4096) < 5e-6
    assert fresh < tied < 2.5 * fresh
    moved = [op for op in run.timeline.kernels if op.name == "memcpy_d2h_pageable"]
    assert [k.origin for k in moved] == ["estimated"] * 3 + ["calibrated"]


def _fetches(op: Op) -> bool:
    return op.sync == "blocking_copy" and op.outputs[0].device == "host"
