"""The pytest plugin, in sessions of their own: a fixture, a baseline, what got worse."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tomllib
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

pytest.importorskip("torch")

TESTS = """
import torch
from torch import nn


def build():
    model = nn.Linear(64, 64).cuda()
    x = torch.randn(8, 64, device="cuda")
    return lambda: model(x)


def test_figure(gpuscope):
    run = gpuscope.predict(build, on="h100")
    assert run.step_time_s < 0.2


def test_held(gpuscope):
    gpuscope.hold(build, on="h100")
"""

ALONE = """

def test_twice(gpuscope):
    gpuscope.hold(build, on="h100", limits={"step_time": "off"})
    gpuscope.hold(build, on="h100")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text(TESTS)
    return tmp_path


# By name: an installation from before the entry point was there knows it, too.
OPTIONS = ("-q", "-p", "gpuscope.pytest_plugin")
ALONE_THERE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "GPUSCOPE_LANG": "en", "PYTHONHASHSEED": "1"}


def session(project: Path, *arguments: str) -> tuple[int, str]:
    """In this process, which has imported PyTorch."""
    told = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(told), redirect_stderr(told):
        patch.chdir(project)
        for name, value in ALONE_THERE.items():
            patch.setenv(name, value)
        code = pytest.main([*OPTIONS, "-p", "no:cacheprovider", *arguments])
    sys.modules.pop("test_it", None)  # the next one may hold another text
    return int(code), told.getvalue()


def own_session(project: Path, *arguments: str) -> tuple[int, str]:
    """In a process of its own."""
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *OPTIONS, *arguments],
        cwd=project,
        env=os.environ | ALONE_THERE,
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.returncode, ran.stdout + ran.stderr


def test_the_fixture_holds_a_step_to_its_baseline(project: Path) -> None:
    code, told = session(project)
    assert code == 1
    assert "There is no baseline" in told
    assert "Type: pytest --gpuscope-update" in told

    assert session(project, "--gpuscope-update")[0] == 0
    held = tomllib.loads((project / "gpuscope-tests.toml").read_text())["runs"]
    assert held["test_it.py::test_held"]["h100"]["launches"] == 1

    worse = TESTS.replace("model(x)", "model(x).sin()") + ALONE
    (project / "test_it.py").write_text(worse)
    code, told = session(project)
    assert code == 1
    assert "1 launch, none before" in told
    assert "test_it.py:9" in told
    assert "The baseline does not know test_it.py::test_twice on h100." in told
    assert "Type: pytest --gpuscope-update" in told
    assert "1 passed" in told


def test_processes_of_xdist_write_one_baseline(project: Path) -> None:
    pytest.importorskip("xdist")
    path = project / "test_it.py"
    path.write_text(TESTS + TESTS[TESTS.index("def test_held") :].replace("held", "other") + ALONE)
    code, told = own_session(project, "-p", "xdist.plugin", "-n", "2", "--gpuscope-update")
    assert code == 1
    assert "This test holds two workloads of one name on h100." in told
    held = tomllib.loads((project / "gpuscope-tests.toml").read_text())["runs"]
    assert {name.partition("::")[2] for name in held} == {"test_held", "test_other", "test_twice"}
    assert session(project)[1].count("FAILED") == 1


def test_its_import_is_light() -> None:
    code = "import sys, gpuscope.pytest_plugin; print({'torch', 'numpy', 'rich'} & {*sys.modules})"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"
