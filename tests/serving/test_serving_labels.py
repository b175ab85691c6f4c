"""What a reader of Chinese sees of a load: no label stays English."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import gpuscope as gs
from gpuscope.cli.app import make_app
from gpuscope.serving.document import load_serving, save_serving
from gpuscope.views.load import load_blocks
from gpuscope.views.terminal import make_console
from gpuscope.views.terminal.blocks.render import render_block

_NAMES = frozenset(
    ["llama", "nvidia", "sxm", "vllm", "vLLM", "token", "CUDA", "KiB", "MiB", "GiB", "TTFT", "TPOT"]
)


def _english(told: str) -> set[str]:
    """Words; an option is typed alike in every language."""
    return set(re.findall(r"[A-Za-z]{3,}", re.sub(r"--[a-z-]+", "", told))) - _NAMES


def _told(*words: str) -> str:
    app = make_app(["serve", "compare"])
    found = CliRunner().invoke(app, [*words, "--lang", "zh"])
    assert found.exit_code == 0, found.output
    return found.output


@pytest.mark.parametrize(
    "load",
    [
        ("--concurrency", "1,4"),
        ("--rate", "5", "--slo", "ttft<500ms"),
        ("--rate", "5", "--slo", "ttft<1us"),
        ("--rate", "900"),
        ("--rate", "5", "--arrivals", "gamma", "--changes"),
        ("--slo", "tpot<9ms"),
    ],
)
def test_serve_in_chinese(load: tuple[str, ...]) -> None:
    words = ("serve", "llama-3.1-8b", "--requests", "120", "--answer", "32", *load)
    assert _english(_told(*words)) <= {"fp"}


def test_compare_and_load_in_chinese(tmp_path: Path) -> None:
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for path, rate in zip(paths, (2, 4), strict=True):
        save_serving(gs.serve("llama-3.1-8b", "h200", rate=rate, requests=40)[0], path)
    assert not _english(_told("compare", *map(str, paths)))
    console = make_console()
    with console.capture() as told:
        for block in load_blocks(load_serving(paths[0])):
            console.print(render_block(block, "zh"))
    assert not _english(told.get())
