"""4-bit weights: PyTorch's own kernel in place of products, a quarter of the weights' bytes."""

import pytest
import torch
from changed_cases import case_of
from decoding_builds import count, decoding, prompts
from live_runs import results

from gpuscope.advice.registry import find
from gpuscope.errors import UnsupportedError


def test_decoding_reads_a_quarter():
    build = decoding(width=2048, dtype=torch.bfloat16)
    plain, small = case_of(build), case_of(build, "int4-weights")
    assert count(small, "_weight_int4pack_mm") == 2 * 7 + 1
    assert find("int4-weights").fits(plain).applies
    assert small.run.peak_memory_bytes < 0.45 * plain.run.peak_memory_bytes
    assert small.run.device_busy_s < plain.run.device_busy_s


def test_float32_and_many_rows_are_refused():
    change = find("int4-weights")
    assert "bfloat16" in change.fits(case_of(decoding())).why
    assert "64 rows" in change.fits(case_of(prompts(dtype=torch.bfloat16))).why
    with pytest.raises(UnsupportedError, match="4 bits need"):
        results(decoding("cpu"), "int4-weights")
