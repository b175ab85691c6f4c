"""`gpuscope load` through the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpuscope.cli.app import app

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "serving" / "client"))

from fake_server import Server, running

ASK = ["--concurrency", "4", "--requests", "12", "--input", "24", "--quiet"]


def load(server: Server, *more: str) -> tuple[int, str]:
    with running(server):
        done = CliRunner().invoke(app, ["load", server.url, *ASK, *more])
    return done.exit_code, done.output


@pytest.mark.parametrize("names", [("--answer", "--output"), ("--output", "--save")])
def test_a_table_and_what_is_saved(
    names: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuscope.serving.client.pace.LEAST_LATE_S", 9.0)  # a busy machine is let
    file = tmp_path / "run.json"
    code, text = load(Server(), names[0], "6", names[1], str(file), "--slo", "ttft<9s")
    assert code == 0, text
    assert "12 of 12 requests finished" in text
    assert "Fewer than 30 finished requests have no P99." in text
    assert "100 %" in text  # within every limit
    saved = json.loads(file.read_text())
    assert (saved["schema"], saved["origin"]) == ("gpuscope.serving", "measured")


def test_json_and_chinese(monkeypatch: pytest.MonkeyPatch, fits_schema: Any) -> None:
    monkeypatch.setattr("gpuscope.serving.client.pace.LEAST_LATE_S", 9.0)
    code, text = load(Server(), "--json")
    assert code == 0
    assert len(fits_schema(text)["served"]["sent_s"]) == 12
    code, text = load(Server("500", every=3), "--lang", "zh")
    assert code == 0
    assert "4 个请求失败" in text


WRONG = {
    "401": (2, "OPENAI_API_KEY"), "404": (2, "--api chat"), "422": (2, "--prompts words"),
    "not_streaming": (2, "proxy"), "closing_early": (2, "log"), "zero_tokens": (2, "log"),
}  # fmt: skip


@pytest.mark.parametrize("behaviour", WRONG)
def test_a_wrong_server_is_one_sentence_and_what_to_type(behaviour: str) -> None:
    code, word = WRONG[behaviour]
    found, text = load(Server(behaviour))
    assert found == code
    assert word in " ".join(text.split())
    assert "Traceback" not in text


def test_a_wrong_model_nobody_there_and_everything_too_slow() -> None:
    code, text = load(Server(), "--model", "tinny")
    assert (code, "tiny" in text) == (2, True)
    done = CliRunner().invoke(app, ["load", "http://127.0.0.1:9", *ASK])
    assert (done.exit_code, "Traceback" in done.output) == (2, False)
    # What the probe asks is answered.
    code, text = load(Server("silent", after=1), "--timeout", "1s")
    assert code == 1
    assert "All 12 requests failed" in " ".join(text.split())
    code, text = load(
        Server("silent", after=1, every=6), "--timeout", "3s", "--answer", "4", "--lang", "zh"
    )
    assert "请求" in text


def test_a_late_client_makes_the_run_void(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuscope.serving.client.pace.LEAST_LATE_S", 0.0)
    monkeypatch.setattr("gpuscope.serving.client.pace.SHARE_OF_LATENCY", 0.0)
    code, text = load(Server())
    assert code == 1
    assert "This run is void. The client itself was" in " ".join(text.split())
    code, text = load(Server(), "--lang", "zh")
    assert "The client" not in text
