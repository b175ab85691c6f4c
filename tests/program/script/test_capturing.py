"""Whole scripts, captured: the step is their own, and nothing of the process is left changed."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path

import pytest

import gpuscope as gs
from gpuscope.errors import GpuscopeError, InputFileError, InvalidValueError, WorkloadError
from gpuscope.program.types import Program
from gpuscope.program.workload import WorkloadOptions, resolve
from gpuscope.program.world import World

HEAD = """
import os, sys
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 8)).to(device)
"""

TRAIN = (
    HEAD
    + """
rows = int(sys.argv[1]) if len(sys.argv) > 1 else 16
optimizer = torch.optim.AdamW(model.parameters())
for number in range(50):
    loss = model(torch.randn(rows, 64, device=device)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(number, loss.item())
"""
)


def build():  # what TRAIN does, as a build
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 8)).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters())

    def step():
        loss = model(torch.randn(16, 64, device="cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def captured(folder: Path, text: str, *arguments: str, writes: bool = False, **more) -> Program:
    path = folder / "train.py"
    path.write_text(text)
    options = WorkloadOptions(arguments=arguments, allow_writes=writes)
    return gs.capture(str(path), options=options, **more)


def names(program: Program) -> list[str]:
    return [op.name for op in program.ops]


def test_a_step_of_the_script_is_the_step_of_its_build(tmp_path: Path, capsys) -> None:
    script, built = captured(tmp_path, TRAIN), gs.capture(build)
    # Its step begins where the optimizer's last one ended: the loss is read first.
    reads = names(built)[-1:]
    assert reads == ["aten::_local_scalar_dense"]
    assert names(script) == reads + names(built)[:-1]
    assert [op.phase for op in script.ops[1:]] == [op.phase for op in built.ops[:-1]]
    counted = lambda p: [(o.python_calls, o.module_calls) for o in p.ops]  # noqa: E731
    assert counted(script)[2:] == counted(built)[1:-1]
    assert script.parameters == built.parameters
    assert script.task == "train"
    kinds = [Counter((s.category, s.nbytes) for s in p.storages) for p in (script, built)]
    for kind in ("parameter", "gradient", "optimizer_state"):
        told = [{k: n for k, n in found.items() if k[0] == kind} for found in kinds]
        assert told[0] == told[1] != {}
    assert capsys.readouterr().out == ""  # what it prints is not ours to print


def test_its_predicted_time_is_the_builds(tmp_path: Path) -> None:
    script, built = gs.predict(captured(tmp_path, TRAIN), "h200"), gs.predict(build, "h200")
    assert script.step_time_s == pytest.approx(built.step_time_s, rel=0.03)
    assert script.peak_memory_bytes == pytest.approx(built.peak_memory_bytes, rel=0.001)


def test_arguments_are_its_own(tmp_path: Path) -> None:
    program = captured(tmp_path, TRAIN, "4")
    first = next(op for op in program.ops if op.name == "aten::addmm")
    assert first.outputs[0].shape == (4, 128)


def test_what_an_argument_parser_says_is_told(tmp_path: Path) -> None:
    text = "import argparse\nargparse.ArgumentParser().parse_args()\nprint(1)\n"
    with pytest.raises(WorkloadError, match="SystemExit") as caught:
        captured(tmp_path, text, "--epochs", "3")
    assert "unrecognized arguments: --epochs 3" in caught.value.why
    assert "after --" in caught.value.next_step


def test_gradient_accumulation_is_one_step(tmp_path: Path) -> None:
    text = (
        HEAD
        + """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(100):
    model(torch.randn(4, 64, device=device)).sum().backward()
    if number % 4 == 3:
        optimizer.step()
        optimizer.zero_grad()
"""
    )
    assert names(captured(tmp_path, text)).count("aten::gelu") == 4


def test_an_evaluation_before_the_training_is_no_step(tmp_path: Path) -> None:
    text = (
        HEAD
        + """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model.eval()
with torch.no_grad():
    for _ in range(10):
        model(torch.randn(4, 64, device=device))
model.train()
for _ in range(10):
    model(torch.randn(4, 64, device=device)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
    )
    program = captured(tmp_path, text)
    assert program.task == "train"
    assert names(program).count("aten::gelu") == 1


def test_weights_that_it_updates_itself(tmp_path: Path) -> None:
    text = (
        HEAD
        + """
for _ in range(10):
    model.zero_grad()
    model(torch.randn(4, 64, device=device)).sum().backward()
    for weight in model.parameters():
        weight.data.add_(weight.grad, alpha=-0.1)
    with torch.no_grad():
        model(torch.randn(4, 64, device=device))
"""
    )
    found = Counter(names(captured(tmp_path, text)))
    assert (found["aten::gelu"], found["aten::gelu_backward"], found["aten::add_"]) == (2, 1, 4)


def test_an_evaluation_before_weights_that_it_updates_itself(tmp_path: Path) -> None:
    text = (
        HEAD
        + """
with torch.no_grad():
    for _ in range(4):
        model(torch.randn(4, 64, device=device))
for _ in range(10):
    model.zero_grad()
    model(torch.randn(4, 64, device=device)).sum().backward()
"""
    )
    program = captured(tmp_path, text)
    assert program.task == "train"
    assert Counter(names(program))["aten::gelu"] == 1


def test_inference_goes_by_the_models_calls(tmp_path: Path) -> None:
    text = (
        HEAD
        + """
other = nn.Linear(8, 8).to(device)
with torch.inference_mode():
    for _ in range(8):
        other(model(torch.randn(4, 64, device=device))).cpu()
"""
    )
    program = captured(tmp_path, text)
    assert program.task == "inference"
    found = Counter(names(program))
    assert (found["aten::gelu"], found["aten::addmm"]) == (1, 3)


def test_a_script_that_catches_everything_still_ends(tmp_path: Path) -> None:
    text = (
        HEAD
        + """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(10):
    try:
        model(torch.randn(4, 64, device=device)).sum().backward()
        optimizer.step()
    except BaseException:
        pass
    finally:
        optimizer.zero_grad()
"""
    )
    assert names(captured(tmp_path, text)).count("aten::gelu") == 1


WRITES = TRAIN.replace("rows =", 'open("left.txt", "w").write("x")\nrows =')


def test_what_it_writes_is_gone_unless_it_may(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert captured(tmp_path, WRITES).ops
    assert not (tmp_path / "left.txt").exists()
    assert captured(tmp_path, WRITES, writes=True).ops
    assert (tmp_path / "left.txt").exists()


def test_the_process_is_as_it_was(tmp_path: Path) -> None:
    text = TRAIN + "\n"
    changes = """
import os, sys
os.environ["LEFT"] = "1"
os.environ["HOME"] = "/elsewhere"
os.chdir("/")
sys.path.append("/left")
"""
    before = (list(sys.path), sys.argv, sys.modules["__main__"], os.getcwd(), dict(os.environ))
    captured(tmp_path, changes + text)
    after = (list(sys.path), sys.argv, sys.modules["__main__"], os.getcwd(), dict(os.environ))
    assert after == before
    with pytest.raises(WorkloadError):
        captured(tmp_path, changes + "1 / 0\n")
    after = (list(sys.path), sys.argv, sys.modules["__main__"], os.getcwd(), dict(os.environ))
    assert after == before


@pytest.mark.parametrize(
    ("text", "what", "why"),
    [
        ("print('nothing')\n", "did no PyTorch work", ""),
        (TRAIN.replace("loss.item()", "loss.nothing()"), "raised AttributeError (line", "nothing"),
    ],
)
def test_what_cannot_be_is_told(tmp_path: Path, text: str, what: str, why: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        captured(tmp_path, text)
    assert what in caught.value.what
    assert why in caught.value.why
    assert caught.value.next_step


SPAWNS = """
import os, sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel


def work(rank, size):
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "29500")
    dist.init_process_group("nccl", rank=rank, world_size=size)
    torch.cuda.set_device(rank)
    model = DistributedDataParallel(torch.nn.Linear(64, 64).cuda(), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        model(torch.randn(8, 64, device="cuda")).sum().backward()
        optimizer.step()


if __name__ == "__main__":
    size = torch.cuda.device_count()
    mp.spawn(work, args=(size,), nprocs=size)
"""


def test_spawned_ranks_run_here(tmp_path: Path) -> None:
    program = captured(tmp_path, SPAWNS, world=World(2, 1, 2))
    assert (program.rank, program.world_size) == (1, 2)
    reduced = [op for op in program.ops if "allreduce" in op.name]
    assert len(reduced) == 1
    assert reduced[0].inputs[0].nbytes == 4 * (64 * 64 + 64)


def test_a_cluster_runs_it_as_every_rank(tmp_path: Path) -> None:
    (tmp_path / "ddp.py").write_text(SPAWNS)
    run = gs.predict(str(tmp_path / "ddp.py"), "2xh200")
    assert run.program is not None
    assert run.program.world_size == 2


def test_another_scripts_modules_are_other_modules(tmp_path: Path) -> None:
    """`model.py` of one folder is not `model.py` of another."""
    text = TRAIN.replace("rows =", "from own_model import WIDTH\nrows = WIDTH #")
    for name, width in (("one", 8), ("two", 32), ("one", 8)):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "own_model.py").write_text(f"WIDTH = {width}\n")
        program = captured(tmp_path / name, text)
        first = next(op for op in program.ops if op.name == "aten::addmm")
        assert first.outputs[0].shape == (width, 128)
    assert "own_model" not in sys.modules


def test_what_it_would_do_at_its_end_is_not_done(tmp_path: Path) -> None:
    left = f"open({str(tmp_path / 'left.txt')!r}, 'w')"
    text = f"import atexit\natexit.register(lambda: {left})\n" + TRAIN
    assert captured(tmp_path, text, writes=True).ops
    assert not (tmp_path / "left.txt").exists()


PIPELINE = """
import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

dist.init_process_group("nccl")
rank, size = dist.get_rank(), dist.get_world_size()
torch.cuda.set_device(rank)
model = torch.nn.Linear(64, 64).cuda()
stage = PipelineStage(model, rank, size, torch.device("cuda", rank))
loss = lambda out, target: (out - target).square().mean()
schedule = Schedule1F1B(stage, 4, loss_fn=loss)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    x = torch.randn(8, 64, device="cuda")
    schedule.step(x) if rank == 0 else schedule.step(target=x)
    optimizer.step()
"""


def test_the_stages_of_a_pipeline_learn_their_shapes(tmp_path: Path) -> None:
    """They exchange them in the very first step, before any boundary."""
    (tmp_path / "pipeline.py").write_text(PIPELINE)
    run = gs.predict(str(tmp_path / "pipeline.py"), "2xh200")
    assert [rank.rank for rank in run.rank_results] == [0, 1]
    assert all(rank.communication_s > 0 for rank in run.rank_results)


PARSES = """
import sys


def parse(arguments=sys.argv[1:]):
    return arguments
"""


@pytest.mark.parametrize("package", [True, False])
def test_a_module_is_run_as_python_runs_it(tmp_path: Path, monkeypatch, package: bool) -> None:
    """Its package is imported first, and may look at the arguments by then."""
    name = f"own_training_{package}"
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text(PARSES)
    main = tmp_path / name / ("__main__.py" if package else "train.py")
    main.write_text(
        f"from {name} import parse\nassert __name__ == '__main__'\n"
        + TRAIN.replace("sys.argv[1]", "parse()[0]")
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    target = name if package else f"{name}.train"
    options = WorkloadOptions(module=True, arguments=("4",))
    found = resolve(target, options)
    assert name not in sys.modules
    assert found.script is not None
    assert found.script.file == main
    program = gs.capture(target, options=options)
    first = next(op for op in program.ops if op.name == "aten::addmm")
    assert first.outputs[0].shape == (4, 128)


def test_a_module_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="no module"):
        resolve("no.such.module", WorkloadOptions(module=True))


@pytest.mark.parametrize("option", [{"batch": 4}, {"dtype": "bfloat16"}, {"compile": "default"}])
def test_options_of_a_model_are_refused(tmp_path: Path, option: dict[str, object]) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    with pytest.raises(InvalidValueError, match=f"takes no --{next(iter(option))}"):
        resolve(str(tmp_path / "train.py"), WorkloadOptions(**option))


@pytest.mark.parametrize("name", ["gpt2", "train.py:build"])
def test_only_scripts_take_arguments(name: str) -> None:
    with pytest.raises(InvalidValueError, match="no script") as caught:
        resolve(name, WorkloadOptions(arguments=("--epochs", "1")))
    assert caught.value.next_step == "Leave out: --epochs 1"


def test_wrong_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputFileError):
        resolve(str(tmp_path / "none.py"))
    (tmp_path / "bad.py").write_text("for x in\n")
    with pytest.raises(InputFileError, match="not valid Python"):
        resolve(str(tmp_path / "bad.py"))


def test_it_cannot_be_measured_as_a_build(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    with pytest.raises(GpuscopeError, match="whole script") as caught:
        gs.measure(str(tmp_path / "train.py"), on="cpu")
    assert "gpuscope profile" in caught.value.next_step
