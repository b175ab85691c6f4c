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


@pytest.mark.parametrize("framework", ["vllm", "sglang"])
@pytest.mark.parametrize("prefill", [1, 2])
def test_both_lines_of_a_server_whose_prompts_are_apart_are_read(
    framework: str, prefill: int, tmp_path: Path
) -> None:
    cluster = parse_target("8xh100")
    choice = ServingChoice(
        cluster, 2, 4 - prefill, "fp8", "bfloat16", 4096, 64, (), prefill=prefill
    )
    path = _line(tmp_path, launch_line("llama-3.1-8b", choice, framework))
    found = existing_server(_question(8), path)
    assert found.choice == choice
    assert found.ignored == ()


def test_replicas_that_are_started_one_by_one_are_read(tmp_path: Path) -> None:
    choice = ServingChoice(parse_target("8xh100"), 4, 2, "bfloat16", "bfloat16", 4096, 64)
    question = question_of_serving("qwen3-30b-a3b", on="h100", devices=8, rate=2.0)
    written = launch_line("qwen3-30b-a3b", choice, "vllm", experts=True)
    assert "start it 2 times" in written
    assert existing_server(question, _line(tmp_path, written)).choice == choice
    twice = "vllm serve m -tp 4 --port 1 &\nvllm serve m -tp 4 --port 2 & wait\n"
    found = existing_server(question, _line(tmp_path, twice))
    assert (found.choice.replicas, found.ignored) == (2, ("--port",))


def test_a_half_is_known_by_its_role_its_comment_or_its_order(tmp_path: Path) -> None:
    def line(role: str, tp: int = 1) -> str:
        config = f'{{"kv_connector": "NixlConnector", "kv_role": "{role}"}}'
        return f"vllm serve m -tp {tp} --kv-transfer-config '{config}'\n"

    question = _question(3)
    roles = f"# start it 2 times\n{line('kv_consumer')}{line('kv_producer')}"
    order = f"{line('kv_both')}# start it 2 times\n{line('kv_both')}"
    comments = f"# answers\n# start it 2 times\n{line('kv_both')}# prompts\n{line('kv_both')}"
    for text in (roles, order, comments):
        choice = existing_server(question, _line(tmp_path, text)).choice
        assert (choice.prefill, choice.replicas) == (1, 2), text
    with pytest.raises(UnsupportedError, match="One half of a server") as error:
        existing_server(question, _line(tmp_path, line("kv_producer")))
    assert "both lines" in str(error.value.next_step)
    with pytest.raises(UnsupportedError, match="not alike"):
        existing_server(question, _line(tmp_path, line("kv_producer", 2) + line("kv_consumer")))


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
        ("vllm serve m --speculative-config '{}'", UnsupportedError),
        ("vllm serve m\npython -m sglang.launch_server --tp 1", UnsupportedError),
        ("vllm serve m\nvllm serve m --kv-transfer-config '{}'", UnsupportedError),
        ("vllm serve m --kv-transfer-config '[['", UnsupportedError),
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
