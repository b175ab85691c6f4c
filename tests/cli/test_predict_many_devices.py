"""Several devices beside each other: those that cannot run it, those that nobody measured."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from gpuscope.cli.app import app

GPT = ("predict", "gpt2", "--task", "decode", "--layers", "1", "--lang", "en")


def predicted(*arguments: str, columns: str = "160"):
    return CliRunner(env={"COLUMNS": columns}).invoke(app, [*GPT, *arguments])


def test_a_device_that_cannot_is_a_row_that_says_why() -> None:
    result = predicted("--on", "h200,t4,mi300x")
    assert result.exit_code == 0, result.output
    (row,) = [line for line in result.output.splitlines() if "nvidia-t4" in line]
    assert "—" in row
    assert "NVIDIA T4 has" in row  # the sentence goes on in the lines below
    assert "bfloat16." in result.output
    assert "amd-mi300x ~" in result.output


def test_the_document_names_who_cannot() -> None:
    result = predicted("--on", "t4,h200", "--json")
    found = json.loads(result.stdout)
    assert [run["device_id"] for run in found["runs"]] == ["nvidia-h200-sxm"]
    (refused,) = found["refused"]
    assert refused["device_id"] == "nvidia-t4"
    assert "bfloat16" in refused["what"]


def test_where_nobody_can_the_first_reason_ends_it() -> None:
    result = predicted("--on", "t4,v100")
    assert result.exit_code == 2
    assert "bfloat16" in result.output


@pytest.mark.parametrize(
    ("name", "evidence"),
    [("h200", "measured"), ("a100", "measured"), ("h100-pcie", "carried"), ("gaudi3", "prior")],
)
def test_what_stands_behind_a_prediction(name: str, evidence: str) -> None:
    from gpuscope.hardware import calibration_for, device

    assert calibration_for(device(name)).evidence == evidence


def test_a_prior_is_marked_beside_the_others() -> None:
    result = predicted("--on", "h200,gaudi3")
    assert "intel-gaudi3 †" in result.output
    assert "no device of its maker was measured" in " ".join(result.output.split())
    assert "nvidia-h200-sxm †" not in result.output
