"""Prompts in pieces: told for long ones, not made."""

import pytest
import torch
from changed_cases import case_of
from decoding_builds import decoding, prompts

from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.registry import find
from gpuscope.errors import UnsupportedError


def test_long_prompts_hear_of_it():
    change = find("chunked-prefill")
    long = change.fits(case_of(prompts(tokens=2048, dtype=torch.bfloat16)))
    assert long.relevant
    assert not long.applies
    assert "pieces of 206 tokens" in long.why
    assert not change.fits(case_of(prompts(tokens=64, dtype=torch.bfloat16))).relevant
    assert not change.fits(case_of(decoding())).relevant
    with pytest.raises(UnsupportedError):
        change.install(Live())
