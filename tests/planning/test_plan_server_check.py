"""A server that there is already, from the line that starts it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuscope.cli.app import app
from gpuscope.errors import GpuscopeError, InputFileError, InvalidValueError, UnsupportedError
from gpuscope.hardware import parse_target
from gpuscope.planning.serving.check import CheckedServer
from gpuscope.planning.serving.existing import existing_server
from gpuscope.planning.serving.launch import launch_line
from gpuscope.planning.serving.search import question_of_serving, scored
from gpuscope.planning.serving.types import ServingChoice, ServingQuestion


def _question(devices: int = 2, rate: float = 2.0) -> ServingQuestion:
    return question_of_serving(
        "llama-3.1-8b", on="h100", devices=devices, rate=rate, slo="tpot<20ms"
    )


def _line(folder: Path, text: str) -> Path:
    path = folder / "serve.sh"
    path.write_text(text)
    return path


@pytest.mark.parametrize("framework", ["vllm", "sglang"])
@pytest.mark.parametrize(
    "choice",
    [
        ServingChoice(parse_target("2xh100"), 2, 1, "bfloat16", "bfloat16", 4096, 64),
        ServingChoice(parse_target("2xh100"), 1, 2, "fp8", "fp8", 2048, 128),
        ServingChoice(parse_target("2xh100"), 1, 1, "fp8", "fp8", 2048, 128, (("pp", 2),)),
    ],
)
def test_what_is_written_is_read_as_the_same(
    framework: str, choice: ServingChoice, tmp_path: Path
) -> None:
    path = _line(tmp_path, launch_line("llama-3.1-8b", choice, framework))
    found = existing_server(_question(), path)
    assert found.choice == choice
    assert found.question.engine == framework
    assert found.ignored == ()


def test_other_spellings_and_what_is_left_out(tmp_path: Path) -> None:
    text = (
        "#!/bin/sh\nexec /opt/bin/vllm serve meta/Llama -tp=2 \\\n --max_num_seqs 32 --port 8000\n"
    )
    found = existing_server(_question(), _line(tmp_path, text))
    assert (found.choice.tp, found.choice.max_sequences) == (2, 32)
    assert found.choice.dtype == "bfloat16"
    assert found.ignored == ("--port",)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("echo hello", InputFileError),
        ("vllm serve 'm", InputFileError),
        ("vllm serve m -tp 4", InvalidValueError),
        ("vllm serve m -tp two", InvalidValueError),
        ("vllm serve m -tp 2 -pp 2", InvalidValueError),
        ("vllm serve m -tp 2 -pp two", InvalidValueError),
        ("vllm serve m -tp 2 --kv-transfer-config '{}'", UnsupportedError),
        ("python -m sglang.launch_server --tp 2 --disaggregation-mode decode", UnsupportedError),
        ("vllm serve m -tp 2 --quantization fp9", GpuscopeError),
    ],
)
def test_what_cannot_be_judged_is_refused(
    text: str, error: type[GpuscopeError], tmp_path: Path
) -> None:
    with pytest.raises(error):
        existing_server(_question(), _line(tmp_path, text))


def test_a_better_neighbour_is_named_only_where_the_server_breaks_a_limit(tmp_path: Path) -> None:
    server = existing_server(_question(), _line(tmp_path, "vllm serve m -tp 2"))
    quick = replace(scored(server.question, server.choice), simulated=True, feasible=0.5)
    sure, surer = replace(quick, feasible=0.9), replace(quick, feasible=0.99)
    bad = CheckedServer(server=server, own=quick, neighbours=(sure, surer))
    assert (bad.keeps, bad.better) == (False, surer)
    good = CheckedServer(server=server, own=sure, neighbours=(surer,))
    assert (good.keeps, good.better) == (True, None)
    assert CheckedServer(server=server, own=quick, neighbours=(quick,)).better is None


def test_on_the_command_line(tmp_path: Path) -> None:
    path = _line(tmp_path, "vllm serve m --max-num-seqs 64")
    ran = CliRunner().invoke(
        app,
        ["plan", "llama-3.2-1b", "--task", "serve", "--on", "h100", "--devices", "1", "--rate", "2",
         "--simulate", "1", "--check", str(path), "--lang", "en"],
        env={"COLUMNS": "300"},
    )  # fmt: skip
    assert ran.exit_code == 0, ran.output
    said = " ".join(ran.output.replace("│", " ").split())
    assert "requests a second at most, of which 2 come" in said
    assert "max-sequences 64 → 128" in said
    assert "keys and values" in said
