"""Errors say what is missing: packages that gpuscope can do without."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpuscope.errors import MissingPackageError, require_package

WITHOUT_TORCH = """
import sys


class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


import importlib.util

found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *a: None if name in ("torch", "transformers") else found(name, *a)
sys.meta_path.insert(0, Absent())
sys.argv[0] = "gpuscope"
from gpuscope.cli.app import main

for line in sys.argv[1:]:
    sys.argv[1:] = line.split()
    try:
        main()
    except SystemExit as end:
        print("\\nended with", end.code, flush=True, file=sys.stderr)
"""  # noqa: E501


def test_a_package_that_is_there_is_not_imported() -> None:
    code = (
        "import sys; from gpuscope.errors import require_package; "
        "require_package('torch', 'This', 'torch'); print('torch' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"


def test_a_package_that_is_not_there_is_named_with_its_extra() -> None:
    with pytest.raises(MissingPackageError, match="no_such_package") as caught:
        require_package("no_such_package", "Flying", "wings")
    assert caught.value.what.startswith("Flying needs")
    assert 'pip install "gpuscope[wings]"' in caught.value.next_step


def test_without_torch_the_command_line_says_what_to_install() -> None:
    commands = (
        "predict gpt2",
        "predict resnet50",
        "measure gpt2 --device cpu",
        "measure resnet50",
        "bench --quick",
        "bench --device cpu",
    )
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, *commands], capture_output=True, text=True
    )
    *told, rest = ran.stderr.split(f"ended with {MissingPackageError.exit_code}\n")
    assert rest == ""
    assert len(told) == len(commands)
    for each in told:
        assert "'torch', which is not installed" in each
        assert "pip install" in each


def test_traces_are_analyzed_without_torch() -> None:
    trace = Path(__file__).parent / "data" / "traces" / "h200" / "pageable_copies"
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, f"analyze {trace}"], capture_output=True, text=True
    )
    assert "ended with 0" in ran.stderr, ran.stderr
    assert "NVIDIA H200" in ran.stdout
