"""Children run no file of the current folder, in whatever verb starts them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from gpuscope import children
from gpuscope.cli.app import VERBS

ROOT = Path(__file__).resolve().parents[1]
EVIL = (
    "gpuscope_evil",
    "json",
    "logging",
    "msgspec",
    "multiprocessing",
    "numpy",
    "pickle",
    "sitecustomize",
    "socket",
    "struct",
    "torch",
    "types",
    "usercustomize",
)

CONSOLE_SCRIPT = "import sys\nfrom gpuscope.cli import main\nsys.exit(main())\n"
"""What pip puts into a folder of programs: the one way in that adds no folder of the user's."""

TRAIN = """
import torch

def build():
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    optimizer = torch.optim.Adam(model.parameters())

    def step():
        optimizer.zero_grad()
        model(torch.randn(32, 64)).square().mean().backward()
        optimizer.step()

    return step

if __name__ == "__main__":
    step = build()
    for _ in range(14):
        step()
"""

STARTED = {
    "advice/forecast/workers.py": ("gpuscope.advice.forecast.workers",),
    "advice/trial/host_pace.py": ("gpuscope.advice.trial.host_pace",),
    "advice/trial/process.py": ("gpuscope.advice.trial.worker",),
    "cli/profile.py": ("gpuscope",),
    "doctor/machine.py": ("gpuscope.doctor.probes.torch_libraries",),
    "doctor/probes/deep_collectives.py": ("gpuscope.doctor.probes.deep_collective_rank",),
    "kernel_lens/runner.py": ("gpuscope.kernel_lens.worker",),
    "loading/worker.py": ("gpuscope.loading.worker",),
    "mcp/child.py": ("gpuscope.mcp.child",),
    "outside/apart.py": ("gpuscope.outside.apart",),
    "program/jax/compiling.py": ("gpuscope.program.jax.child",),
    "program/guard/elsewhere.py": ("gpuscope.program.guard.server",),
    "measurement/bench/collective_runs.py": ("gpuscope.measurement.bench.collective_worker",),
}
"""Files that start a Python, and what it runs."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in which a file shadows what every child imports; each leaves a trace if it runs."""
    inside = tmp_path / "evil"
    inside.mkdir()
    for name in EVIL:
        (inside / f"{name}.py").write_text(
            f"import sys\nopen({str(inside / 'ran.txt')!r}, 'a').write({name!r} + ' in ' + "
            "str(sys.argv) + chr(10))\nraise SystemExit(9)\n"
        )
    return inside


def test_a_child_of_python_itself_would_run_them(folder: Path) -> None:
    """The trap works: without -P the file is run, also in what `multiprocessing` starts."""
    code = (
        "import multiprocessing\n"
        "if __name__ == '__main__':\n"
        "    print(multiprocessing.get_context('spawn').Process(target=print).start())\n"
    )
    (folder.parent / "script.py").write_text(code)
    for words in (["-m", "gpuscope_evil"], [str(folder.parent / "script.py")]):
        subprocess.run([sys.executable, *words], cwd=folder, check=False, timeout=60)
        assert "in ['-" in (folder / "ran.txt").read_text()
        (folder / "ran.txt").unlink()


def _gpuscope(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = folder.parent / "bin" / "gpuscope"
    script.parent.mkdir()
    script.write_text(CONSOLE_SCRIPT)
    return subprocess.run(
        [sys.executable, str(script), *arguments],
        cwd=folder,
        env=children.environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


TRACES = ROOT / "tests" / "data" / "traces"
RANKS = str(TRACES / "4xh200" / "ddp_slow_host")


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("analyze", RANKS, "--quiet"), id="analyze"),
        pytest.param(("compare", RANKS, str(TRACES / "h200" / "host_bound")), id="compare"),
        pytest.param(("analyze", str(TRACES / "h200" / "snapshot.pickle")), id="snapshot"),
        pytest.param(("doctor",), id="doctor"),
        pytest.param(("lens", f"{ROOT / 'examples/lens/transpose.py'}:launch"), id="lens"),
        pytest.param(
            ("predict", "{work}/train.py", "--quiet"), id="predict", marks=pytest.mark.slow
        ),
        pytest.param(
            ("advise", "{work}/train.py:build", "--quiet"), id="advise", marks=pytest.mark.slow
        ),
        pytest.param(
            tuple(
                "optimize {work}/train.py:build --device cpu --budget 15s --quiet "
                "--output {work}/optimized".split()
            ),
            id="optimize",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ("profile", "--gpus", "2", "--output-dir", "{work}/out", "--quiet", "{work}/train.py"),
            id="profile",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_no_verb_runs_a_file_of_the_folder(folder: Path, arguments: tuple[str, ...]) -> None:
    work = folder.parent / "work"
    work.mkdir()
    (work / "train.py").write_text(TRAIN)
    done = _gpuscope(folder, *(word.format(work=work) for word in arguments))
    assert "Unexpected error" not in done.stderr + done.stdout
    assert "Error:" not in done.stderr
    assert not (folder / "ran.txt").exists(), (folder / "ran.txt").read_text()
    assert not (folder / "__pycache__").exists()


SHORT = {
    "bench": "--list",
    "cache": "",
    "claims": "",
    "devices": "",
    "guard": "",
    "fit": "nothing",
    "explain": "occupancy --threads 256 --registers 64 --on h200",
    "learn": "",
    "load": "http://127.0.0.1:9 --requests 1",
    "measure": "nothing",
    "mcp": "--method",
    "models": "",
    "plan": "nothing",
    "report": "nothing",
    "schema": "run",
    "serve": "nothing",
    "watch": "--once",
}
"""Verbs that are not tried above, each on little: what they import is what could be shadowed."""


def test_every_verb_is_tried() -> None:
    mark = test_no_verb_runs_a_file_of_the_folder.pytestmark[0]
    assert {each.values[0][0] for each in mark.args[1]} | set(SHORT) == set(VERBS)


@pytest.mark.parametrize("verb", SHORT)
def test_no_other_verb_runs_one_either(folder: Path, verb: str) -> None:
    done = _gpuscope(folder, verb, *SHORT[verb].split())
    assert "Unexpected error" not in done.stderr + done.stdout
    assert not (folder / "ran.txt").exists(), (folder / "ran.txt").read_text()


@pytest.mark.parametrize("module", [each for started in STARTED.values() for each in started])
def test_no_child_runs_a_file_of_the_folder(folder: Path, module: str) -> None:
    """Each as its verb starts it, though with nothing to do."""
    assert find_spec(module)
    subprocess.run(
        children.python(module),
        cwd=folder,
        env=children.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert not (folder / "ran.txt").exists(), (folder / "ran.txt").read_text()


def test_every_file_that_starts_a_child_is_known_here() -> None:
    source = ROOT / "src" / "gpuscope"
    users = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if re.search(r"children\.(python|torchrun)\(", path.read_text())
    }
    assert users == set(STARTED)


def test_ranks_under_torchrun_run_none_either(folder: Path) -> None:
    pytest.importorskip("torch")
    command = children.torchrun(1, "platform")
    done = subprocess.run(
        command,
        cwd=folder,
        env=children.environment(),
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert not (folder / "ran.txt").exists()


def test_the_package_is_found_after_all_other_paths() -> None:
    found = children.environment({"PYTHONPATH": f"/a{os.pathsep}{os.pathsep}/b"})
    assert found["PYTHONPATH"].split(os.pathsep) == ["/a", "/b", children.OURS]


def test_every_child_of_the_package_is_started_here() -> None:
    """`sys.executable` elsewhere means a second way to start a Python."""
    allowed = {"children.py", "timeline/kineto/parallel.py"}
    source = ROOT / "src" / "gpuscope"
    users = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if re.search(r'sys\.executable,\s*"-', path.read_text())
    }
    assert users <= allowed


STARTS = re.compile(
    r"get_context\(|ProcessPoolExecutor|multiprocessing\.(Process|Pool)\b|mp\.spawn\("
    r"|os\.(fork|forkpty|system|popen|spawn\w+|posix_spawnp?)\(|shell=True"
)


def test_nothing_else_starts_processes() -> None:
    """Those of `multiprocessing` look into the current folder first; a shell reads its own."""
    source = ROOT / "src" / "gpuscope"
    found = {p.name for p in source.rglob("*.py") if STARTS.search(p.read_text("utf-8"))}
    # It forks, and never starts a Python: its path is that of `children`.
    assert found == {"server.py"}
