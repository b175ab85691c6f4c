"""`gpuscope doctor` through the command line: recorded machines, and once this one."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuscope.cli.app import app

sys.path.insert(0, str(Path(__file__).parents[1] / "doctor"))

from software_machines import cpu_only, h200


@pytest.fixture(autouse=True)
def _english(monkeypatch) -> None:
    monkeypatch.setenv("GPUSCOPE_LANG", "en")


def _invoke(*arguments: object):
    return CliRunner().invoke(app, ["doctor", *map(str, arguments)])


def _saved(path: Path, machine) -> Path:
    path.write_text(machine.to_json(), "utf-8")
    return path


@pytest.fixture
def well(tmp_path) -> Path:
    return _saved(tmp_path / "well.json", h200(8))


@pytest.fixture
def ill(tmp_path) -> Path:
    machine = h200(8)
    machine.probes["nvml"]["driver"] = "590.44.01"
    return _saved(tmp_path / "ill.json", machine)


@pytest.fixture
def warned(tmp_path) -> Path:
    machine = h200(8)
    machine.probes["torch_libraries"]["packages"]["triton"] = "2.0"
    return _saved(tmp_path / "warned.json", machine)


def test_exit_codes(well: Path, ill: Path, warned: Path) -> None:
    assert _invoke("--replay", well).exit_code == 0
    assert _invoke("--replay", ill).exit_code == 3
    assert _invoke("--replay", warned).exit_code == 0
    assert _invoke("--replay", warned, "--strict").exit_code == 3
    assert _invoke("--replay", well, "--strict").exit_code == 0
    assert _invoke("--replay", ill, "--json").exit_code == 3
    assert _invoke("--replay", ill, "--only", "triton").exit_code == 0


def test_what_is_wrong_comes_with_what_to_type(ill: Path) -> None:
    shown = _invoke("--replay", ill).stdout
    assert "1 error" in shown
    assert "8× NVIDIA H200" in shown
    assert "$ sudo reboot" in shown
    assert shown.index("sudo reboot") < shown.index("As it should be")
    quiet = _invoke("--replay", ill, "--quiet").stdout
    assert "sudo reboot" in quiet
    assert "As it should be" not in quiet


def test_a_machine_without_a_gpu_is_calm(tmp_path) -> None:
    run = _invoke("--replay", _saved(tmp_path / "cpu.json", cpu_only()))
    assert run.exit_code == 0
    assert "This machine is all right." in run.stdout


def test_chinese(ill: Path) -> None:
    shown = _invoke("--replay", ill, "--lang", "zh").stdout
    assert "内核模块" in shown
    assert "处理方法" in shown


def test_json_and_files(tmp_path, ill: Path) -> None:
    document = json.loads(_invoke("--replay", ill, "--json").stdout)
    assert document["schema"] == "gpuscope.diagnosis"
    assert document["worst"] == "error"
    assert document["counts"]["error"] == 1
    saved, page = tmp_path / "d.json", tmp_path / "d.html"
    run = _invoke("--replay", ill, "--output", saved, "--report", page)
    again = json.loads(saved.read_text())
    assert [f["check"] for f in again["findings"]] == [f["check"] for f in document["findings"]]
    assert "gpuscope" in page.read_text("utf-8")
    assert f"Wrote {page}" in run.stderr.replace("\n", "")


def test_plain_text_for_a_report_of_a_bug(ill: Path) -> None:
    shown = _invoke("--replay", ill, "--text").stdout
    assert shown.startswith("gpuscope doctor ")
    assert "[error] kernel_module" in shown
    assert not set(shown) & set("╭│✓")
    assert _invoke("--replay", ill, "--text", "--json").exit_code == 2


def test_comparing_two_machines(tmp_path, well: Path, ill: Path) -> None:
    shown = _invoke("--replay", well, "--compare", ill)
    assert shown.exit_code == 0
    assert "kernel_module" in shown.stdout
    assert "590.44.01" in shown.stdout
    diagnosis = tmp_path / "other.json"
    _invoke("--replay", ill, "--output", diagnosis)
    document = json.loads(_invoke("--replay", well, "--compare", diagnosis, "--json").stdout)
    assert document["schema"] == "gpuscope.machine_differences"
    assert document["checks"][0]["check"] == "kernel_module"
    assert "agree" in _invoke("--replay", well, "--compare", well).stdout


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"schema": "gpuscope.diagnosis"}', "\x1f"])
def test_what_is_no_machine_is_refused(tmp_path, well: Path, content: str) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text(content)
    assert _invoke("--replay", bad).exit_code == 2
    run = _invoke("--replay", well, "--compare", bad)
    assert run.exit_code == 2
    assert "Traceback" not in run.stderr


def test_an_unknown_check_and_a_folder_that_is_missing(tmp_path, well: Path) -> None:
    run = _invoke("--replay", well, "--only", "kernel_modul")
    assert run.exit_code == 2
    assert "kernel_module" in run.stderr
    assert _invoke("--replay", well, "--report", tmp_path / "none" / "x.html").exit_code == 2


def test_the_list_of_checks() -> None:
    shown = _invoke("--list").stdout
    assert "cuda_runtime" in shown
    checks = json.loads(_invoke("--list", "--json").stdout)["checks"]
    assert {"name", "group", "about"} == set(checks[0])
    assert "驱动" in _invoke("--list", "--lang", "zh").stdout


def test_this_machine_is_recorded_and_replayed(tmp_path) -> None:
    record, first, again = (tmp_path / n for n in ("machine.json", "first.json", "again.json"))
    live = _invoke("--record", record, "--output", first, "-q")
    replayed = _invoke("--replay", record, "--output", again, "-q")
    assert live.exit_code == replayed.exit_code
    before, after = (json.loads(path.read_text()) for path in (first, again))
    assert before["machine"] == after["machine"]

    def found(document):
        return [(f["check"], f["severity"], f["found"]["en"]) for f in document["findings"]]

    assert found(before) == found(after)
    assert len(found(before)) > 3
