"""Ten real outputs in the pseudo-language: every English word that no catalogue could translate.

The pseudo-language brackets all that went through the catalogues; what is left must be a name.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import gpuscope as gs
from gpuscope.cli.app import app
from gpuscope.document.text import Text, render
from gpuscope.views.terminal import console

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
RECORDED = DATA / "traces" / "h200" / "compute_bound"

OUTPUTS = {
    "predict": "predict gpt2 --task train --batch 2 --layers 2 --on h200",
    "job": "predict gpt2 --task train --microbatch 1 --layers 2 --on 8xh200 --fsdp full",
    "decode": "predict gpt2 --task decode --batch 1 --layers 2 --on h200",
    "recording": f"analyze {DATA / 'traces' / '4xh200' / 'ddp_slow_host'}",
    "compare": f"compare {DATA / 'runs' / 'h200-mlp-small.json.gz'} {RECORDED}",
    "explain": "explain matmul 4096 4096 4096 --on h200",
    "doctor": f"doctor --replay {DATA / 'machines' / 'h200-x2-deep.json'}",
    "claims": "claims",
    "advise": f"advise {RECORDED} --on h200",
    "devices": "devices",
    "error": "predict gpt2 --on h2000",
}

_UNITS = "°C s ms µs ns B KiB MiB GiB TiB W J mJ k M G x".split()
"""Units and prefixes of figures; "8 x 1024" is a size."""

_AROUND = "()[]{}.,;:!?'\"·│→" + "".join(map(chr, range(0x2800, 0x2900)))
"""Punctuation, frames and the dots of curves."""

_NAME = re.compile(r"[a-z]*[A-Z]\w*|.*[\d_./:=×$<>{}-].*")
"""Names in a text: capitals, digits, or signs that no English word has."""

_CITED = re.compile(
    r"^.*(?:gpuscope |User's Guide|CACM|docs/).*$|^\s*\[\d+\].*$|^│ \S+ (?:train|decode), .*$",
    re.MULTILINE,
)
"""Commands to type, sources as they are called, and the title of a workload, which is its name."""


def words_left(text: str, names: set[str]) -> list[str]:
    """English words outside brackets that are no names."""
    text = re.sub(r"⟦[^⟦⟧]*⟧", " ", _CITED.sub("", text))
    found = (token.strip(_AROUND) for token in text.split())
    return sorted({w for w in found if re.search("[A-Za-z]", w) and not _is_name(w, names)})


def _is_name(word: str, names: set[str]) -> bool:
    return word in names or word in _UNITS or _NAME.fullmatch(word) is not None


def names_of(key: str) -> set[str]:
    """Operators, modules, kernels, checks, changes: what this output's data call themselves."""
    if key in ("predict", "job", "decode", "recording", "compare"):
        return _operators() | MODULES
    if key == "doctor":
        from gpuscope.doctor.registry import checks

        recorded = (DATA / "machines" / "h200-x2-deep.json").read_text("utf-8")
        return {check.name for check in checks()} | set(re.findall(r"\w+", recorded))
    if key == "advise":
        from gpuscope.advice.registry import changes

        return {change.name for change in changes()}
    if key == "claims":
        from gpuscope.learn.claims.registry import topic_keys

        return set(topic_keys())
    return {device.id for device in gs.devices()} | set("ab")  # marks on a curve


SYMBOLS = set(
    "attention launch all-to-all nvjet cluster elementwise backward reduce scalar tensor".split()
)
"""Parts of kernels' symbols, as they are shortened."""

MODULES = set(
    "transformer h wte attn mlp act head layers blocks q k v out feed gate up down weight output "
    "parameter unsharded dp tp pp fsdp".split()
)
"""Modules of the workloads and dimensions of meshes, as the runs name them."""


def _operators() -> set[str]:
    import torch

    aten = {
        name.partition("::")[2].partition(".")[0] for name in torch._C._dispatch_get_all_op_names()
    }
    return aten | SYMBOLS


@pytest.fixture
def wide(monkeypatch) -> None:
    """One line a paragraph, so that no bracket is parted."""
    monkeypatch.setattr(console, "WIDTH", 6000)


def printed(command: str, lang: str, monkeypatch) -> str:
    arguments = [*command.split(), "--lang", lang]
    monkeypatch.setattr(sys, "argv", ["gpuscope", *arguments])
    return CliRunner().invoke(app, arguments).output


@pytest.mark.parametrize("key", OUTPUTS)
def test_nothing_is_left_in_english(key: str, wide, monkeypatch) -> None:
    shown = printed(OUTPUTS[key], "qps", monkeypatch)
    assert len(re.findall("⟦", shown)) >= 3
    assert words_left(shown, names_of(key)) == []


def test_the_rule_finds_what_is_not_translated() -> None:
    shown = "⟦Step time⟧ 15.9 ms of aten::mm, an english phrase on NVIDIA H200"
    assert words_left(shown, set()) == ["an", "english", "of", "on", "phrase"]
    assert words_left(render(Text("idle"), "qps"), set()) == []
