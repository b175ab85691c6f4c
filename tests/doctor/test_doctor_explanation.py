from __future__ import annotations

import pytest
from software_machines import cpu_only, h200

from gpuscope.doctor.diagnose import diagnose
from gpuscope.doctor.explanation import explain_diagnosis
from gpuscope.doctor.machine import Recording
from gpuscope.document.blocks import Facts
from gpuscope.views.explanation import explanation_document
from gpuscope.views.explanation_terminal import render_explanation
from gpuscope.views.terminal import make_console


def test_each_error_and_warning_has_its_own_section_with_what_to_type() -> None:
    machine = h200(8)
    machine.probes["nvml"]["driver"] = "590.44.01"
    diagnosis = diagnose(machine)
    explanation = explain_diagnosis(diagnosis, machine)
    titles = [section.title for section in explanation.sections]
    bad = [f for f in diagnosis.findings if f.severity in ("error", "warning")]
    assert bad
    for finding in bad:
        assert any(finding.title in title for title in titles)
    assert "sudo reboot" in explanation.commands
    assert explanation.summary[0].startswith("1 error and ")


def test_every_finding_is_on_it() -> None:
    machine = h200(2)
    diagnosis = diagnose(machine)
    explanation = explain_diagnosis(diagnosis, machine)
    lists = [b for s in explanation.sections[1:] for b in s.blocks if isinstance(b, Facts)]
    shown = [row.label for block in lists for row in block.rows]
    assert len(shown) == len(diagnosis.findings)
    assert {label.partition("[")[0] for label in shown} == {f.check for f in diagnosis.findings}
    assert "all right" in explanation.summary[0]


@pytest.mark.parametrize("machine", [cpu_only(), h200(8), Recording()], ids=["cpu", "8", "empty"])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_it_can_be_shown(machine, lang: str, capsys) -> None:
    explanation = explain_diagnosis(diagnose(machine), machine)
    console = make_console()
    for part in render_explanation(explanation, lang):
        console.print(part)
    assert capsys.readouterr().out
    assert explanation_document(explanation)["topic"] == "doctor"
