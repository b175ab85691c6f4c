"""The doctor's views: the terminal, plain text, JSON and back."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "doctor"))

from software_machines import cpu_only, h200

from gpuscope.atomic import write_document
from gpuscope.doctor.compare import differences
from gpuscope.doctor.diagnose import diagnose
from gpuscope.doctor.registry import checks
from gpuscope.doctor.types import SEVERITIES, Diagnosis, Finding
from gpuscope.document.text import recorded, render
from gpuscope.errors import InputFileError
from gpuscope.views.doctor import render_checks, render_diagnosis, summary
from gpuscope.views.doctor_compare import render_differences
from gpuscope.views.doctor_document import diagnosis_document, load_diagnosis
from gpuscope.views.doctor_text import diagnosis_text
from gpuscope.views.terminal import make_console
from gpuscope.views.words import word


def made(**severities: int) -> Diagnosis:
    """A diagnosis with so many findings of each severity."""
    findings = tuple(
        Finding(
            f"check_{severity}",
            severity,
            recorded({"en": f"title {severity}", "zh": f"标题 {severity}"}),
            recorded({"en": "found it", "zh": "找到了"}),
            recorded({"en": "because", "zh": "因为"}),
            recorded({"en": "mend it", "zh": "修好它"}),
            ("do this",),
            "a file",
            values={"x_bytes": 3, "y": None, "z": True},
        )
        for severity in SEVERITIES
        for _ in range(severities.get(severity, 0))
    )
    return Diagnosis({"host": "a"}, findings, {f.check: 0.5 for f in findings})


def printed(renderable, capsys, width: int = 100) -> str:
    console = make_console()
    console.width = width
    console.print(renderable)
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({"ok": 3}, "This machine is all right."),
        ({"note": 1, "unknown": 2}, "This machine is all right."),
        ({"error": 1}, "1 error to mend."),
        ({"error": 2, "warning": 1}, "2 errors, 1 warning to mend."),
        ({"warning": 5, "ok": 1}, "5 warnings to mend."),
        ({}, "Nothing was checked."),
    ],
)
def test_the_summary(counts, said: str) -> None:
    assert summary(made(**counts), "en") == said
    assert summary(made(**counts), "zh") != said


def test_order_and_what_is_shown(capsys) -> None:
    text = printed(render_diagnosis(made(error=1, warning=1, note=1, unknown=1, ok=1)), capsys)
    places = [text.index(f"check_{severity}") for severity in ("error", "warning", "note")]
    assert places == sorted(places)
    assert text.count("$ do this") == 3  # nothing to mend in what is fine or unknown
    assert text.count("because") == 2
    brief = printed(render_diagnosis(made(error=1, ok=1), brief=True), capsys)
    assert "check_error" in brief
    assert "check_ok" not in brief


@pytest.mark.parametrize("width", [40, 60, 100])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_no_line_is_wider_than_the_terminal(capsys, width: int, lang: str) -> None:
    from rich.cells import cell_len

    machine = h200(8)
    machine.probes["nvml"]["driver"] = "590.44.01"
    text = printed(render_diagnosis(diagnose(machine), lang), capsys, width)
    assert max(cell_len(line) for line in text.splitlines()) <= width


def test_plain_text_is_complete() -> None:
    text = diagnosis_text(made(error=1, note=1, ok=2))
    assert text.splitlines()[0].endswith("1 error to mend.")
    assert "host: a" in text
    assert "[error] check_error: title error" in text
    assert "    found it (a file)" in text
    assert "    $ do this" in text
    assert text.count("[ok]") == 2
    assert "[错误]" in diagnosis_text(made(error=1), "zh")


@pytest.mark.parametrize("name", ["d.json", "d.json.gz"])
def test_a_saved_diagnosis_comes_back_as_it_was(tmp_path, name: str) -> None:
    for diagnosis in (made(error=1, ok=2), diagnose(h200(2)), diagnose(cpu_only()), made()):
        write_document(diagnosis_document(diagnosis), tmp_path / name)
        assert load_diagnosis(tmp_path / name) == diagnosis


@pytest.mark.parametrize(
    "change",
    [
        {"version": 99},
        {"schema": "gpuscope.run"},
        {"findings": [{}]},
        {"findings": None},
        {"machine": []},
        {"version": None},
        {"findings": [{"severity": "bad", "check": "x"}]},
    ],
)
def test_a_document_that_is_none_is_refused(tmp_path, change) -> None:
    path = tmp_path / "x.json"
    write_document(diagnosis_document(made(ok=1)) | change, path)
    with pytest.raises(InputFileError):
        load_diagnosis(path)


def test_differences_are_shown_side_by_side(capsys) -> None:
    ill = h200(8)
    ill.probes["nvml"]["driver"] = "590.44.01"
    text = printed(render_differences(differences(diagnose(h200(8)), diagnose(ill))), capsys)
    assert "kernel_module" in text
    assert "580.65.06" in text
    assert "590.44.01" in text
    same = render_differences(differences(diagnose(ill), diagnose(ill)))
    assert "agree in all" in printed(same, capsys)


def test_each_check_is_described_in_both_languages(capsys) -> None:
    assert [c.about for c in checks() if render(c.about, "zh") == c.about] == []
    assert checks()[0].name in printed(render_checks(checks(), "zh"), capsys)
    assert word("error", "zh") == "错误"
