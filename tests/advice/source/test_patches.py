"""Patches: `git apply` takes them, and what comes out runs."""

from __future__ import annotations

import runpy
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from gpuscope.advice import registry
from gpuscope.advice.change import Change
from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.source.edits import around_statements
from gpuscope.advice.source.patches import moved, parts_of, patch_of, with_needs
from gpuscope.advice.types import ChangeCase, Edit, Fit, ModelSeen, Seen
from gpuscope.document.text import Text
from gpuscope.errors import UnknownNameError

TRAIN = dedent('''\
    """Training."""

    from torch import nn
    from torch.optim import AdamW


    def build():
        model = nn.Linear(4, 4)
        opt = AdamW(
            model.parameters(),
            lr=1e-3,
        )

        def step():
            loss = model(nn.Parameter(model.weight[:2])).sum()
            loss.backward()
            opt.step()

        return step
    ''')


class _Silent(Change):
    """A change that only `gs.apply` makes."""

    name = "silent"
    title = Text("silent")
    group = "memory"

    def fits(self, case: ChangeCase) -> Fit:
        """Always."""
        return Fit(True, Text("yes"))

    def install(self, live: Live) -> None:
        """Nothing."""


class _Wrong(_Silent):
    """A change whose edit is not Python."""

    name = "wrong"

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """An edit that breaks the file."""
        return (Edit(seen.file, 1, 0, "def (\n"),)


class _Wraps(_Silent):
    """A change that moves what stands after it."""

    name = "wraps"
    rank = 1

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """`if True:` around the model and its optimizer."""
        text = sources[seen.file]
        first = text.split("\n").index("    model = nn.Linear(4, 4)") + 1
        edit = around_statements(seen.file, text, first, first + 4, "if True:")
        return None if edit is None else (edit,)


@pytest.fixture(autouse=True)
def _own_changes() -> Iterator[None]:
    own = (_Silent(), _Wrong(), _Wraps())
    with registry.CHANGES.replaced({c.name: c for c in (*registry.changes(), *own)}):
        yield


def _seen(path: Path) -> Seen:
    """What is seen of a file's build, as trials see it."""
    build = runpy.run_path(str(path))["build"]
    live = Live()
    live.wrap(build)()()
    seen = live.seen(str(path), "build")
    live.close()
    return seen


def _git(folder: Path, *command: str, given: str = "") -> None:
    subprocess.run(["git", *command], cwd=folder, check=True, input=given.encode())


@pytest.fixture
def train(tmp_path: Path) -> Path:
    _git(tmp_path, "init", "-q")
    path = tmp_path / "my code" / "train.py"
    path.parent.mkdir()
    path.write_text(TRAIN)
    return path


def test_git_takes_it_and_it_runs(train: Path) -> None:
    patch = patch_of(["tf32", "fused-optimizer", "silent"], _seen(train))
    assert patch.in_source == ("fused-optimizer", "tf32")
    assert patch.by_apply == ("silent",)
    assert parts_of(patch.diff) == (patch.in_source, patch.by_apply, ())
    _git(train.parents[1], "apply", "-", given=patch.diff)
    text = train.read_text()
    assert text == patch.files[str(train)]
    assert 'torch.set_float32_matmul_precision("high")\n' in text
    assert text.count("import torch\n") == text.count("import gpuscope as gs\n") == 1
    assert "lr=1e-3, fused=True,\n" in text
    assert '@gs.apply("silent")\ndef build():' in text
    seen = _seen_again(train)
    assert seen.optimizers[0].keywords["fused"] is True


def _seen_again(path: Path) -> Seen:
    import torch

    before = torch.get_float32_matmul_precision()
    try:
        return _seen(path)
    finally:
        torch.set_float32_matmul_precision(before)


def test_sites_move_with_the_text(train: Path) -> None:
    seen = _seen(train)
    line = TRAIN.split("\n").index("    opt = AdamW(") + 1
    assert seen.optimizers[0].site == f"{train}:{line}"
    assert seen.models[0].site == f"{train}:{line - 1}"
    patch = patch_of(["wraps", "fused-optimizer"], seen)
    assert patch.in_source == ("wraps", "fused-optimizer")
    assert "            lr=1e-3, fused=True,\n" in patch.files[str(train)]


def test_an_edit_that_breaks_the_file_is_left_to_apply(train: Path) -> None:
    patch = patch_of(["wrong"], _seen(train))
    assert patch.by_apply == ("wrong",)
    assert "def (" not in patch.diff
    assert '+@gs.apply("wrong")' in patch.diff


def test_without_a_file_there_is_no_patch() -> None:
    patch = patch_of(["tf32", "silent"], Seen())
    assert (patch.diff, dict(patch.files)) == ("", {})
    assert patch.by_apply == ("silent", "tf32")
    assert parts_of(patch.diff) == ((), (), ())


def test_a_script_gets_a_line_instead_of_a_decorator() -> None:
    patch = patch_of(["silent"], Seen(file="a.py"), sources={"a.py": "import os\n\nos.getcwd()\n"})
    new = 'import os\nimport gpuscope as gs\ngs.apply("silent").start()\n\nos.getcwd()\n'
    assert patch.files["a.py"] == new


def test_line_ends_and_a_missing_last_one_stay(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"import os\r\n\r\nos.getcwd()")
    _git(tmp_path, "init", "-q")
    patch = patch_of(["tf32"], Seen(file=str(path)))
    assert "\\ No newline at end of file" in patch.diff
    _git(tmp_path, "apply", "-", given=patch.diff)
    assert path.read_bytes().count(b"\r\n") == path.read_bytes().count(b"\n") == 5


def test_a_file_that_begins_with_a_mark(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes("\ufeffimport os\n".encode())
    patch = patch_of(["tf32", "silent"], Seen(file=str(path)))
    assert patch.files[str(path)].startswith("\ufeffimport os\n")
    _git(tmp_path, "init", "-q")
    _git(tmp_path, "apply", "-", given=patch.diff)
    compile(path.read_bytes(), "a.py", "exec")


@pytest.mark.parametrize("text", ["def (\n", "\x00"])
def test_a_file_that_is_no_python_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.py"
    path.write_text(text)
    assert patch_of(["tf32"], Seen(file=str(path))).diff == ""


def test_an_unknown_change() -> None:
    with pytest.raises(UnknownNameError):
        patch_of(["tf33"], Seen())


def test_imports_come_once_and_before_their_use() -> None:
    text = "import os\nx = torch\nimport sys\n"
    assert with_needs("f", text, ["import torch"]) == "import os\nimport torch\n" + text[10:]
    text = "import torch.nn\n"
    assert with_needs("f", text, ["import torch"]) == text
    text = "from torch.nn import functional as F\n"
    assert with_needs("f", text, ["import torch.nn.functional as F"]) == text


def test_a_site_after_an_insertion_and_in_a_changed_line() -> None:
    seen = Seen(models=(ModelSeen("A", "m", "f", 0, (), {}, site="f:2"),))
    for after, line in (("x\na\nb\nc\n", 3), ("a\n  b\nc\n", 2), ("a\nB\nc\n", 2), ("b\n", 1)):
        assert moved(seen, {"f": "a\nb\nc\n"}, {"f": after}).models[0].site == f"f:{line}"


def test_one_file_under_two_names_is_one_file(train: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(train.parent)
    seen = replace(_seen(train), file="train.py")  # the call sites' paths are whole
    patch = patch_of(["tf32", "fused-optimizer", "silent"], seen)
    assert list(patch.files) == [str(train)]
    assert patch.diff.count("+++ ") == 1
    assert "fused=True" in patch.diff
