"""More sequences at once: how many there is reason and room for."""

import pytest
import torch
from changed_cases import case_of
from decoding_builds import decoding, prompts

from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.changes.more_requests import cache_bytes, ridge_rows
from gpuscope.advice.registry import find
from gpuscope.errors import UnsupportedError


def test_the_ridge_is_that_of_the_datasheet():
    case = case_of(decoding(dtype=torch.bfloat16))
    # H200: 989.5 TFLOP/s in bfloat16 over 4.8 TB/s, a weight of 2 bytes serves 2 operations a row.
    assert ridge_rows(case) == pytest.approx(989.5e12 / 4.8e12, rel=0.01)


def test_keys_and_values_are_counted():
    # 2 layers x (keys + values) x 2 heads of 8 x 14 tokens x 2 bytes, of 3 sequences: the second
    # step is recorded.
    case = case_of(decoding(dtype=torch.bfloat16, batch=3))
    assert cache_bytes(case.program) == 3 * 2 * 2 * 2 * 8 * 14 * 2


def test_it_is_told_not_made():
    fit = find("more-requests").fits(case_of(decoding(dtype=torch.bfloat16)))
    assert not fit.applies
    assert fit.relevant
    assert "up to about 206 at once" in fit.why
    assert "room for about" in fit.why
    assert not find("more-requests").fits(case_of(prompts())).relevant
    with pytest.raises(UnsupportedError):
        find("more-requests").install(Live())
