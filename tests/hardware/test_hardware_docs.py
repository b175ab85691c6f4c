"""The snippets of docs/hardware.md run, in both languages."""

import re
from pathlib import Path

import pytest

from gpuscope.hardware.loader import load_device

DOCS = Path(__file__).parents[2] / "docs"
LANGUAGES = ("hardware.md", "hardware.zh-CN.md")


def _blocks(document: str, language: str) -> list[str]:
    text = (DOCS / document).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("document", LANGUAGES)
def test_python_runs(document: str) -> None:
    blocks = _blocks(document, "python")
    assert blocks
    for block in blocks:
        exec(compile(block, document, "exec"), {})


@pytest.mark.parametrize("document", LANGUAGES)
def test_the_example_device_loads(document: str, tmp_path: Path) -> None:
    (block,) = _blocks(document, "toml")
    path = tmp_path / "acme-one.toml"
    path.write_text(block, encoding="utf-8")
    found = load_device(path)
    expected = 2 * found.fp32_lanes_per_unit * found.compute_units * found.clock_hz
    assert found.peak_flops_per_s("float32") == expected


def test_both_languages_say_the_same() -> None:
    english, chinese = ((DOCS / name).read_text(encoding="utf-8") for name in LANGUAGES)
    for mark in ("\n## ", "\n- **", "\n| `"):
        assert english.count(mark) == chinese.count(mark)
