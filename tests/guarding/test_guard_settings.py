"""What to guard: read from a file, and refused with a sentence."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuscope.errors import GpuscopeError, InputFileError, InvalidValueError, UnknownNameError
from gpuscope.guarding.settings import only, read_settings

GOOD = """
on = "h100"
[limits]
launches = "10%"
[workloads.b]
run = "gpt2"
batch = 2
limits = { step_time = "1.5 %", findings = "off" }
[workloads.a]
run = "a.py:build"
on = ["h200", "8xh200"]
"""


def written(folder: Path, text: str, name: str = "gpuscope.toml") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def test_settings_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("")
    a, b = read_settings(written(tmp_path, GOOD)).workloads
    assert (a.name, a.on, b.on) == ("a", ("h200", "8xh200"), ("h100",))
    assert a.run == f"{tmp_path / 'a.py'}:build"
    assert b.options.batch == 2
    assert b.limits == {**a.limits, "step_time": 0.015, "findings": None}
    assert a.limits["launches"] == pytest.approx(0.1)


def test_the_nearest_file_is_found(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    inner = tmp_path / "x" / "y"
    inner.mkdir(parents=True)
    text = '[tool.gpuscope]\non = "h100"\n[tool.gpuscope.workloads.a]\nrun = "gpt2"\n'
    path = written(tmp_path, text, "pyproject.toml")
    written(tmp_path / "x", "[tool.other]\n", "pyproject.toml")
    assert read_settings(start=inner).path == path
    (tmp_path / "z" / ".git").mkdir(parents=True)
    with pytest.raises(InputFileError, match="nothing to guard"):
        read_settings(start=tmp_path / "z")


@pytest.mark.parametrize(
    ("old", "new", "error", "said"),
    [
        ("batch", "bach", UnknownNameError, r"bach.*batch.*\[workloads\.b\]"),
        ("launches", "launchs", UnknownNameError, r"launchs.*launches.*\[limits\]"),
        ("[limits]", "onn = 1\n[limits]", UnknownNameError, "onn"),
        ('"10%"', "10", InvalidValueError, r"limits\.launches = 10"),
        ('"10%"', '"-1%"', InvalidValueError, "launches"),
        ("batch = 2", 'batch = "2"', InvalidValueError, r"workloads\.b\.batch"),
        ('run = "gpt2"', "", InvalidValueError, "'b' does not say what to run"),
        ('on = "h100"', "", InvalidValueError, "'b' names no device"),
        ("[limits]", "[limits", InputFileError, "no TOML"),
    ],
)
def test_what_is_wrong_is_said(
    tmp_path: Path, old: str, new: str, error: type[GpuscopeError], said: str
) -> None:
    with pytest.raises(error, match=said) as caught:
        read_settings(written(tmp_path, GOOD.replace(old, new, 1)))
    assert caught.value.next_step


def test_one_workload_alone(tmp_path: Path) -> None:
    settings = read_settings(written(tmp_path, GOOD))
    assert [each.name for each in only(settings, ("b",)).workloads] == ["b"]
    with pytest.raises(UnknownNameError):
        only(settings, ("c",))


def test_another_users_file_above_is_not_obeyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may write to /tmp names what runs in /tmp/mine: /tmp/gpuscope.toml did."""
    path = written(tmp_path, GOOD)
    inner = tmp_path / "mine"
    inner.mkdir()
    usual = os.stat_result
    found = path.stat()

    def of_somebody(self: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        about = os.stat(self, follow_symlinks=follow_symlinks)
        uid = 12345 if self == path else about.st_uid
        return usual((*about[:4], uid, *about[5:]))

    assert read_settings(start=inner).path == path
    monkeypatch.setattr(Path, "stat", of_somebody)
    with pytest.raises(InputFileError, match="belongs to another user") as caught:
        read_settings(start=inner)
    assert f"--config {path}" in str(caught.value.next_step)
    assert read_settings(path).path == path  # named by the user
    assert read_settings(start=tmp_path).path == path  # where the user stands
    assert found.st_uid == os.stat(path).st_uid


@pytest.mark.parametrize("text", ["tool = 3", "[tool]\ngpuscope = 3", "a = " + "[" * 3000])
def test_a_project_file_of_no_tables_is_refused(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, text, "pyproject.toml")
    with pytest.raises(InputFileError):
        read_settings(path)


def test_a_name_that_no_file_can_have_is_a_workload_as_any(tmp_path: Path) -> None:
    text = f'[workloads.a]\non = "h100"\nrun = "{"a" * 5000}.py:build"\n'
    assert read_settings(written(tmp_path, text)).workloads[0].run.startswith("aaaa")


def test_what_an_error_repeats_of_a_value_is_short(tmp_path: Path) -> None:
    text = f'[workloads.a]\nrun = "gpt2"\non = "h100"\nbatch = "{"9" * 5000}"\n'
    with pytest.raises(InvalidValueError) as caught:
        read_settings(written(tmp_path, text))
    assert len(str(caught.value.what)) < 200
