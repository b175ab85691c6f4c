"""Sequences beyond a model's context: refused where positions are a table, told elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("transformers")

import gpuscope as gs
from gpuscope.errors import InvalidValueError
from gpuscope.program.models.settings import WorkloadOptions
from gpuscope.program.workload import resolve

_LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "vocab_size": 128,
    "max_position_embeddings": 32,
}
_OPT = {
    "model_type": "opt",
    "hidden_size": 64,
    "word_embed_proj_dim": 64,
    "ffn_dim": 128,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "vocab_size": 128,
    "max_position_embeddings": 32,
}


def _file(folder: Path, values: dict[str, object]) -> str:
    path = folder / "config.json"
    path.write_text(json.dumps(values))
    return str(path)


@pytest.mark.parametrize(
    ("name", "options", "longest"),
    [
        ("gpt2", WorkloadOptions(seq=5_000_000, layers=1), "--seq 1024"),
        ("gpt2", WorkloadOptions(task="decode", context=1024, layers=1), "--context 1023"),
        ("bert-base", WorkloadOptions(seq=513, layers=1), "--seq 512"),
        ("opt", WorkloadOptions(seq=33, layers=1), "--seq 32"),
    ],
)
def test_a_table_of_positions_has_an_end(
    name: str, options: WorkloadOptions, longest: str, tmp_path: Path
) -> None:
    name = _file(tmp_path, _OPT) if name == "opt" else name
    with pytest.raises(InvalidValueError, match="longer than the model's") as caught:
        gs.capture(name, options=options)
    assert longest in str(caught.value.next_step)


def test_up_to_its_end_it_is_predicted(tmp_path: Path) -> None:
    config = _file(tmp_path, _OPT)
    assert gs.capture(config, options=WorkloadOptions(seq=32)).ops
    assert gs.capture("gpt2", options=WorkloadOptions(task="decode", context=1023, layers=1)).ops


def test_rotary_positions_go_on_and_it_is_told(tmp_path: Path) -> None:
    config = _file(tmp_path, _LLAMA)
    run = gs.predict(config, on="h200", options=WorkloadOptions(seq=33))
    assert any("33 tokens is longer than the 32" in note for note in run.assumptions)
    at_end = WorkloadOptions(task="decode", context=32)
    assert any("33 tokens is longer" in note for note in resolve(config, at_end).notes)
    assert not any("is longer" in note for note in resolve(config, WorkloadOptions(seq=32)).notes)


def test_a_parallel_job_tells_it_too() -> None:
    from gpuscope.program.models.parallel.options import ParallelOptions

    asked = WorkloadOptions(seq=262_144, parallel=ParallelOptions(tp=8), replicas=(8, 8))
    notes = resolve("llama-3.1-8b", asked).notes
    assert any("262,144 tokens is longer than the 131,072" in note for note in notes)
