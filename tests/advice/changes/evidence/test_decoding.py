"""What a captured step says about decoding."""

import pytest

pytest.importorskip("torch")

from gpuscope.advice.changes.evidence.decoding import decodes, grows, rows_per_product
from gpuscope.capturing import capture
from gpuscope.program.workload import WorkloadOptions


def _program(task, **options):
    return capture("llama-3.2-1b", options=WorkloadOptions(task=task, layers=1, **options))


def test_decoding_is_told_from_prompts_and_training():
    decode = _program("decode", context=128, batch=3)
    assert decodes(decode)
    assert grows(decode)
    assert rows_per_product(decode) == 3
    prompt = _program("prefill", seq=64, batch=2)
    assert not decodes(prompt)
    assert rows_per_product(prompt) in (128, 2)
    assert not decodes(_program("train", seq=64, batch=1))
