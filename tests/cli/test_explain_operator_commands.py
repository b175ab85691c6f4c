"""`gpuscope explain matmul | attention | conv | occupancy`: options arrive, errors end politely."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuscope.cli.app import app
from gpuscope.explanation import conv_figures, matmul_figures


@pytest.fixture(autouse=True)
def _few_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand combinations of the sliders are priced in tests/explanation."""
    for module, name in ((matmul_figures, "_even"), (conv_figures, "_stops")):
        monkeypatch.setattr(module, name, lambda size: tuple(sorted({max(size // 2, 1), size})))


CALLS = {
    "matmul": [
        "512",
        "768",
        "1024",
        "--dtype",
        "fp16",
        "--on",
        "a100",
        "--layout",
        "nn",
        "--batch",
        "2",
        "--hot",
    ],
    "attention": [
        "--batch",
        "2",
        "--heads",
        "8",
        "--kv-heads",
        "2",
        "--seq",
        "256",
        "--kv-seq",
        "512",
        "--head-dim",
        "64",
        "--causal",
        "--dtype",
        "fp16",
        "--on",
        "a100",
        "--backward",
        "--backend",
        "flash",
    ],
    "conv": [
        "4",
        "32",
        "28",
        "28",
        "64",
        "--kernel",
        "5",
        "--stride",
        "2",
        "--padding",
        "2",
        "--groups",
        "2",
        "--dtype",
        "fp16",
        "--on",
        "a100",
        "--channels-last",
        "--backward",
    ],
    "occupancy": ["--threads", "256", "--registers", "64", "--shared", "48KB", "--on", "a100"],
}


@pytest.mark.parametrize("topic", CALLS)
def test_the_json_document_knows_the_topic(topic: str) -> None:
    result = CliRunner().invoke(app, ["explain", topic, *CALLS[topic], "--json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["schema"] == "gpuscope.explanation"
    assert document["topic"] == topic
    assert "A100" in document["title"]["en"]
    assert document["sections"]


@pytest.mark.parametrize("topic", CALLS)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_terminal_shows_it(topic: str, lang: str) -> None:
    result = CliRunner().invoke(app, ["explain", topic, *CALLS[topic], "--lang", lang])
    assert result.exit_code == 0, result.output
    assert "A100" in result.stdout
    assert len(result.stdout.splitlines()) > 40


def test_options_change_the_answer() -> None:
    def time(*more: str) -> str:
        call = ["explain", "matmul", "512", "512", "512", "--json", *more]
        document = json.loads(CliRunner().invoke(app, call).stdout)
        return str(document["sections"][0]["blocks"][0]["rows"][0]["value"])

    assert len({time(), time("--hot"), time("--batch", "4"), time("--on", "a100")}) == 4
    assert time("--cold") == time()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (["matmul", "0", "8", "8"], "M = 0 cannot be."),
        (["matmul", "64", "64", "64", "--dtype", "fp8", "--on", "a100"], "float8_e4m3fn"),
        (["attention", "--kv-heads", "3"], "cannot share"),
        (["conv", "1", "3", "8", "8", "4", "--kernel", "30"], "does not fit"),
        (["occupancy", "--threads", "1025"], "at most 1024"),
        (["occupancy", "--shared", "300KB"], "at most 227 KB"),
    ],
)
def test_what_cannot_be_is_refused_without_a_traceback(call: list[str], says: str) -> None:
    result = CliRunner().invoke(app, ["explain", *call])
    assert result.exit_code == 2
    assert says in result.output
    assert "Traceback" not in result.output


def test_it_is_saved(tmp_path: Path) -> None:
    path = tmp_path / "occupancy.json"
    result = CliRunner().invoke(
        app, ["explain", "occupancy", *CALLS["occupancy"], "--output", str(path), "-q"]
    )
    assert result.exit_code == 0, result.output
    assert json.loads(path.read_text())["topic"] == "occupancy"
